package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// Packets of MQTT 3.1.1, as much as is needed.

func packet(first byte, body []byte) []byte {
	b := []byte{first}
	for n := len(body); ; {
		digit := byte(n % 128)
		if n /= 128; n > 0 {
			b = append(b, digit|0x80)
			continue
		}
		return append(append(b, digit), body...)
	}
}

func text(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func connectPacket(id string, lasting bool) []byte {
	flags := byte(2)
	if lasting {
		flags = 0
	}
	return packet(0x10, text(append(text(nil, "MQTT"), 4, flags, 0, 0), id))
}

func subscribePacket(filter string, qos byte) []byte {
	return packet(0x82, append(text([]byte{0, 1}, filter), qos))
}

func publishPacket(topic string, qos byte, id uint16, payload []byte) []byte {
	b := text(nil, topic)
	if qos > 0 {
		b = binary.BigEndian.AppendUint16(b, id)
	}
	return packet(0x30|qos<<1, append(b, payload...))
}

// readPacket returns one whole packet.
func readPacket(r *bufio.Reader) (first byte, body []byte, err error) {
	if first, err = r.ReadByte(); err != nil {
		return 0, nil, err
	}
	size := 0
	for shift := 0; ; shift += 7 {
		digit, err := r.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		size |= int(digit&0x7F) << shift
		if digit < 0x80 {
			break
		}
	}
	body = make([]byte, size)
	_, err = io.ReadFull(r, body)
	return first, body, err
}

// greet logs in and tells whether the session was there.
func greet(c net.Conn, r *bufio.Reader, id string, lasting bool) (present bool, err error) {
	if _, err := c.Write(connectPacket(id, lasting)); err != nil {
		return false, err
	}
	first, body, err := readPacket(r)
	if err != nil {
		return false, err
	}
	if first != 0x20 || len(body) != 2 || body[1] != 0 {
		return false, fmt.Errorf("CONNACK %x % x", first, body)
	}
	return body[0] == 1, nil
}

func subscribe(c net.Conn, r *bufio.Reader, filter string, qos byte) error {
	if _, err := c.Write(subscribePacket(filter, qos)); err != nil {
		return err
	}
	first, body, err := readPacket(r)
	if err == nil && (first != 0x90 || len(body) != 3 || body[2] != qos) {
		err = fmt.Errorf("SUBACK %x % x", first, body)
	}
	return err
}
