package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/mochi-mqtt/server/v2/packets"
)

// encodePacket writes what a client sends.
func encodePacket(pk packets.Packet, version byte) ([]byte, error) {
	pk.ProtocolVersion = version
	var buf bytes.Buffer
	var err error
	switch pk.FixedHeader.Type {
	case packets.Connect:
		err = pk.ConnectEncode(&buf)
	case packets.Publish:
		err = pk.PublishEncode(&buf)
	case packets.Puback:
		err = pk.PubackEncode(&buf)
	case packets.Pubrec:
		err = pk.PubrecEncode(&buf)
	case packets.Pubrel:
		err = pk.PubrelEncode(&buf)
	case packets.Pubcomp:
		err = pk.PubcompEncode(&buf)
	case packets.Subscribe:
		err = pk.SubscribeEncode(&buf)
	case packets.Pingreq:
		err = pk.PingreqEncode(&buf)
	case packets.Disconnect:
		err = pk.DisconnectEncode(&buf)
	default:
		err = fmt.Errorf("a client sends no %s", packets.PacketNames[pk.FixedHeader.Type])
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", packets.PacketNames[pk.FixedHeader.Type], err)
	}
	return buf.Bytes(), nil
}

// readPacket reads what a broker sends. Memory grows with what arrives, not
// with what a header claims.
func readPacket(in *bufio.Reader, version byte) (packets.Packet, error) {
	pk := packets.Packet{ProtocolVersion: version}
	first, err := in.ReadByte()
	if err != nil {
		return pk, closed(err)
	}
	if err := pk.FixedHeader.Decode(first); err != nil {
		return pk, fmt.Errorf("broker's packet: %w", err)
	}
	n, _, err := packets.DecodeLength(in)
	if err != nil {
		return pk, fmt.Errorf("broker's packet: %w", closed(err))
	}
	pk.FixedHeader.Remaining = n
	var body bytes.Buffer
	if _, err := io.CopyN(&body, in, int64(n)); err != nil {
		return pk, closed(err)
	}
	if err := decodePacket(&pk, body.Bytes()); err != nil {
		return pk, fmt.Errorf("broker's %s: %w", packets.PacketNames[pk.FixedHeader.Type], err)
	}
	return pk, nil
}

func decodePacket(pk *packets.Packet, body []byte) error {
	switch pk.FixedHeader.Type {
	case packets.Connack:
		return pk.ConnackDecode(body)
	case packets.Publish:
		return pk.PublishDecode(body)
	case packets.Puback:
		return pk.PubackDecode(body)
	case packets.Pubrec:
		return pk.PubrecDecode(body)
	case packets.Pubrel:
		return pk.PubrelDecode(body)
	case packets.Pubcomp:
		return pk.PubcompDecode(body)
	case packets.Suback:
		return pk.SubackDecode(body)
	case packets.Pingresp:
		return nil
	case packets.Disconnect:
		return pk.DisconnectDecode(body)
	}
	return errors.New("not for a client")
}

// closed says in words that the other side hung up.
func closed(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errClosed
	}
	return err
}

// reason is a reason code in words, with what the broker adds.
func (c *mqttConn) reason(code byte, said string, names map[byte]string) error {
	name := names[code]
	if c.version == 5 || name == "" {
		name = reasonNames()[code]
	}
	text := fmt.Sprintf("0x%02X", code)
	if name != "" {
		text = name + " (" + text + ")"
	}
	if said != "" {
		text += ": " + said
	}
	return errors.New(text)
}

// connackReasons are MQTT 3.1.1's return codes (3.2.2.3).
func connackReasons() map[byte]string {
	return map[byte]string{
		1: "unacceptable protocol version", 2: "client id rejected", 3: "server unavailable",
		4: "bad user name or password", 5: "not authorized",
	}
}

// reasonNames are MQTT 5's, those that a client meets (2.4).
func reasonNames() map[byte]string {
	names := map[byte]string{0x00: "normal disconnection", 0x80: "refused"}
	for _, c := range []packets.Code{
		packets.ErrMalformedPacket, packets.ErrProtocolViolation, packets.ErrImplementationSpecificError,
		packets.ErrUnsupportedProtocolVersion, packets.ErrClientIdentifierNotValid, packets.ErrBadUsernameOrPassword,
		packets.ErrNotAuthorized, packets.ErrServerUnavailable, packets.ErrServerBusy, packets.ErrBanned,
		packets.ErrServerShuttingDown, packets.ErrKeepAliveTimeout, packets.ErrSessionTakenOver,
		packets.ErrTopicFilterInvalid, packets.ErrTopicNameInvalid, packets.ErrPacketIdentifierInUse,
		packets.ErrReceiveMaximum, packets.ErrTopicAliasInvalid, packets.ErrPacketTooLarge,
		packets.ErrMessageRateTooHigh, packets.ErrQuotaExceeded, packets.ErrAdministrativeAction,
		packets.ErrPayloadFormatInvalid, packets.ErrRetainNotSupported, packets.ErrQosNotSupported,
		packets.ErrSharedSubscriptionsNotSupported, packets.ErrConnectionRateExceeded,
		packets.ErrMaxConnectTime, packets.ErrSubscriptionIdentifiersNotSupported,
		packets.ErrWildcardSubscriptionsNotSupported,
	} {
		names[c.Code] = c.Reason
	}
	return names
}
