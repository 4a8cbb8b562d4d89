package frame

import (
	"fmt"
	"strings"
)

// Method is a class and a method in it, as they lead a method frame.
type Method uint32

// Class is the number of the method's class.
func (m Method) Class() uint16 { return uint16(m >> 16) }

// ID is the method's number in its class.
func (m Method) ID() uint16 { return uint16(m) }

// The classes that a dispatcher tells apart.
const (
	ConnectionClass = 10
	ChannelClass    = 20
	basicClass      = 60
)

// The methods of AMQP 0-9-1 and RabbitMQ's extensions.
const (
	ConnectionStart          Method = 10<<16 | 10
	ConnectionStartOK        Method = 10<<16 | 11
	ConnectionSecure         Method = 10<<16 | 20
	ConnectionSecureOK       Method = 10<<16 | 21
	ConnectionTune           Method = 10<<16 | 30
	ConnectionTuneOK         Method = 10<<16 | 31
	ConnectionOpen           Method = 10<<16 | 40
	ConnectionOpenOK         Method = 10<<16 | 41
	ConnectionClose          Method = 10<<16 | 50
	ConnectionCloseOK        Method = 10<<16 | 51
	ConnectionBlocked        Method = 10<<16 | 60
	ConnectionUnblocked      Method = 10<<16 | 61
	ConnectionUpdateSecret   Method = 10<<16 | 70
	ConnectionUpdateSecretOK Method = 10<<16 | 71
	ChannelOpen              Method = 20<<16 | 10
	ChannelOpenOK            Method = 20<<16 | 11
	ChannelFlow              Method = 20<<16 | 20
	ChannelFlowOK            Method = 20<<16 | 21
	ChannelClose             Method = 20<<16 | 40
	ChannelCloseOK           Method = 20<<16 | 41
	ExchangeDeclare          Method = 40<<16 | 10
	ExchangeDeclareOK        Method = 40<<16 | 11
	ExchangeDelete           Method = 40<<16 | 20
	ExchangeDeleteOK         Method = 40<<16 | 21
	ExchangeBind             Method = 40<<16 | 30
	ExchangeBindOK           Method = 40<<16 | 31
	ExchangeUnbind           Method = 40<<16 | 40
	ExchangeUnbindOK         Method = 40<<16 | 51
	QueueDeclare             Method = 50<<16 | 10
	QueueDeclareOK           Method = 50<<16 | 11
	QueueBind                Method = 50<<16 | 20
	QueueBindOK              Method = 50<<16 | 21
	QueueUnbind              Method = 50<<16 | 50
	QueueUnbindOK            Method = 50<<16 | 51
	QueuePurge               Method = 50<<16 | 30
	QueuePurgeOK             Method = 50<<16 | 31
	QueueDelete              Method = 50<<16 | 40
	QueueDeleteOK            Method = 50<<16 | 41
	BasicQos                 Method = 60<<16 | 10
	BasicQosOK               Method = 60<<16 | 11
	BasicConsume             Method = 60<<16 | 20
	BasicConsumeOK           Method = 60<<16 | 21
	BasicCancel              Method = 60<<16 | 30
	BasicCancelOK            Method = 60<<16 | 31
	BasicPublish             Method = 60<<16 | 40
	BasicReturn              Method = 60<<16 | 50
	BasicDeliver             Method = 60<<16 | 60
	BasicGet                 Method = 60<<16 | 70
	BasicGetOK               Method = 60<<16 | 71
	BasicGetEmpty            Method = 60<<16 | 72
	BasicAck                 Method = 60<<16 | 80
	BasicReject              Method = 60<<16 | 90
	BasicRecoverAsync        Method = 60<<16 | 100
	BasicRecover             Method = 60<<16 | 110
	BasicRecoverOK           Method = 60<<16 | 111
	BasicNack                Method = 60<<16 | 120
	TxSelect                 Method = 90<<16 | 10
	TxSelectOK               Method = 90<<16 | 11
	TxCommit                 Method = 90<<16 | 20
	TxCommitOK               Method = 90<<16 | 21
	TxRollback               Method = 90<<16 | 30
	TxRollbackOK             Method = 90<<16 | 31
	ConfirmSelect            Method = 85<<16 | 10
	ConfirmSelectOK          Method = 85<<16 | 11
)

// BasicClass is the class of all content.
const BasicClass = basicClass

// catalogue is the name of each method and the fields that it carries.
var catalogue = map[Method]struct{ name, fields string }{
	ConnectionStart:          {"connection.start", "version-major:octet version-minor:octet server-properties:table mechanisms:longstr locales:longstr"},
	ConnectionStartOK:        {"connection.start-ok", "client-properties:table mechanism:shortstr response:longstr locale:shortstr"},
	ConnectionSecure:         {"connection.secure", "challenge:longstr"},
	ConnectionSecureOK:       {"connection.secure-ok", "response:longstr"},
	ConnectionTune:           {"connection.tune", "channel-max:short frame-max:long heartbeat:short"},
	ConnectionTuneOK:         {"connection.tune-ok", "channel-max:short frame-max:long heartbeat:short"},
	ConnectionOpen:           {"connection.open", "virtual-host:shortstr reserved-1:shortstr reserved-2:bit"},
	ConnectionOpenOK:         {"connection.open-ok", "reserved-1:shortstr"},
	ConnectionClose:          {"connection.close", "reply-code:short reply-text:shortstr class-id:short method-id:short"},
	ConnectionCloseOK:        {"connection.close-ok", ""},
	ConnectionBlocked:        {"connection.blocked", "reason:shortstr"},
	ConnectionUnblocked:      {"connection.unblocked", ""},
	ConnectionUpdateSecret:   {"connection.update-secret", "new-secret:longstr reason:shortstr"},
	ConnectionUpdateSecretOK: {"connection.update-secret-ok", ""},
	ChannelOpen:              {"channel.open", "reserved-1:shortstr"},
	ChannelOpenOK:            {"channel.open-ok", "reserved-1:longstr"},
	ChannelFlow:              {"channel.flow", "active:bit"},
	ChannelFlowOK:            {"channel.flow-ok", "active:bit"},
	ChannelClose:             {"channel.close", "reply-code:short reply-text:shortstr class-id:short method-id:short"},
	ChannelCloseOK:           {"channel.close-ok", ""},
	ExchangeDeclare:          {"exchange.declare", "reserved-1:short exchange:shortstr type:shortstr passive:bit durable:bit auto-delete:bit internal:bit no-wait:bit arguments:table"},
	ExchangeDeclareOK:        {"exchange.declare-ok", ""},
	ExchangeDelete:           {"exchange.delete", "reserved-1:short exchange:shortstr if-unused:bit no-wait:bit"},
	ExchangeDeleteOK:         {"exchange.delete-ok", ""},
	ExchangeBind:             {"exchange.bind", "reserved-1:short destination:shortstr source:shortstr routing-key:shortstr no-wait:bit arguments:table"},
	ExchangeBindOK:           {"exchange.bind-ok", ""},
	ExchangeUnbind:           {"exchange.unbind", "reserved-1:short destination:shortstr source:shortstr routing-key:shortstr no-wait:bit arguments:table"},
	ExchangeUnbindOK:         {"exchange.unbind-ok", ""},
	QueueDeclare:             {"queue.declare", "reserved-1:short queue:shortstr passive:bit durable:bit exclusive:bit auto-delete:bit no-wait:bit arguments:table"},
	QueueDeclareOK:           {"queue.declare-ok", "queue:shortstr message-count:long consumer-count:long"},
	QueueBind:                {"queue.bind", "reserved-1:short queue:shortstr exchange:shortstr routing-key:shortstr no-wait:bit arguments:table"},
	QueueBindOK:              {"queue.bind-ok", ""},
	QueueUnbind:              {"queue.unbind", "reserved-1:short queue:shortstr exchange:shortstr routing-key:shortstr arguments:table"},
	QueueUnbindOK:            {"queue.unbind-ok", ""},
	QueuePurge:               {"queue.purge", "reserved-1:short queue:shortstr no-wait:bit"},
	QueuePurgeOK:             {"queue.purge-ok", "message-count:long"},
	QueueDelete:              {"queue.delete", "reserved-1:short queue:shortstr if-unused:bit if-empty:bit no-wait:bit"},
	QueueDeleteOK:            {"queue.delete-ok", "message-count:long"},
	BasicQos:                 {"basic.qos", "prefetch-size:long prefetch-count:short global:bit"},
	BasicQosOK:               {"basic.qos-ok", ""},
	BasicConsume:             {"basic.consume", "reserved-1:short queue:shortstr consumer-tag:shortstr no-local:bit no-ack:bit exclusive:bit no-wait:bit arguments:table"},
	BasicConsumeOK:           {"basic.consume-ok", "consumer-tag:shortstr"},
	BasicCancel:              {"basic.cancel", "consumer-tag:shortstr no-wait:bit"},
	BasicCancelOK:            {"basic.cancel-ok", "consumer-tag:shortstr"},
	BasicPublish:             {"basic.publish", "reserved-1:short exchange:shortstr routing-key:shortstr mandatory:bit immediate:bit"},
	BasicReturn:              {"basic.return", "reply-code:short reply-text:shortstr exchange:shortstr routing-key:shortstr"},
	BasicDeliver:             {"basic.deliver", "consumer-tag:shortstr delivery-tag:longlong redelivered:bit exchange:shortstr routing-key:shortstr"},
	BasicGet:                 {"basic.get", "reserved-1:short queue:shortstr no-ack:bit"},
	BasicGetOK:               {"basic.get-ok", "delivery-tag:longlong redelivered:bit exchange:shortstr routing-key:shortstr message-count:long"},
	BasicGetEmpty:            {"basic.get-empty", "reserved-1:shortstr"},
	BasicAck:                 {"basic.ack", "delivery-tag:longlong multiple:bit"},
	BasicReject:              {"basic.reject", "delivery-tag:longlong requeue:bit"},
	BasicRecoverAsync:        {"basic.recover-async", "requeue:bit"},
	BasicRecover:             {"basic.recover", "requeue:bit"},
	BasicRecoverOK:           {"basic.recover-ok", ""},
	BasicNack:                {"basic.nack", "delivery-tag:longlong multiple:bit requeue:bit"},
	TxSelect:                 {"tx.select", ""},
	TxSelectOK:               {"tx.select-ok", ""},
	TxCommit:                 {"tx.commit", ""},
	TxCommitOK:               {"tx.commit-ok", ""},
	TxRollback:               {"tx.rollback", ""},
	TxRollbackOK:             {"tx.rollback-ok", ""},
	ConfirmSelect:            {"confirm.select", "nowait:bit"},
	ConfirmSelectOK:          {"confirm.select-ok", ""},
}

// Known tells whether there is such a method.
func (m Method) Known() bool { return catalogue[m].name != "" }

// String is the name, as queue.declare.
func (m Method) String() string {
	if name := catalogue[m].name; name != "" {
		return name
	}
	return fmt.Sprintf("method %d of class %d", m.ID(), m.Class())
}

// Field is one field of a method: its name, and its type octet, short, long,
// longlong, shortstr, longstr, bit or table.
type Field struct{ Name, Type string }

// Fields is what a method carries, in order; bits that follow each other share
// octets.
func (m Method) Fields() []Field {
	var list []Field
	for f := range strings.FieldsSeq(catalogue[m].fields) {
		name, kind, _ := strings.Cut(f, ":")
		list = append(list, Field{name, kind})
	}
	return list
}

// MethodNamed is the method of a name.
func MethodNamed(name string) (Method, bool) {
	for m, c := range catalogue {
		if c.name == name {
			return m, true
		}
	}
	return 0, false
}
