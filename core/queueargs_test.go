package core

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"entrepot/routing"
)

func header(name string, v any) routing.Header { return routing.Header{Name: name, Value: v} }

func TestParseQueueArgs(t *testing.T) {
	for _, c := range []struct {
		title string
		in    routing.Headers
		want  QueueArgs
	}{
		{"none", nil, QueueArgs{}},
		{"message TTL", routing.Headers{header("x-message-ttl", int32(1500))},
			QueueArgs{MessageTTL: 1500 * time.Millisecond, HasMessageTTL: true}},
		{"message TTL of zero is one", routing.Headers{header("x-message-ttl", int64(0))}, QueueArgs{HasMessageTTL: true}},
		{"longest TTL", routing.Headers{header("x-message-ttl", uint32(math.MaxUint32))},
			QueueArgs{MessageTTL: math.MaxUint32 * time.Millisecond, HasMessageTTL: true}},
		{"expires", routing.Headers{header("x-expires", uint8(1))}, QueueArgs{Expires: time.Millisecond}},
		{"length", routing.Headers{header("x-max-length", int8(7))}, QueueArgs{MaxLength: 7, HasMaxLength: true}},
		{"length of zero", routing.Headers{header("x-max-length", int16(0))}, QueueArgs{HasMaxLength: true}},
		{"bytes", routing.Headers{header("x-max-length-bytes", uint64(1<<40))}, QueueArgs{MaxBytes: 1 << 40, HasMaxBytes: true}},
		{"drop-head", routing.Headers{header("x-overflow", "drop-head")}, QueueArgs{}},
		{"reject-publish", routing.Headers{header("x-overflow", "reject-publish")}, QueueArgs{Overflow: RejectPublish}},
		{"reject-publish-dlx, as bytes", routing.Headers{header("x-overflow", []byte("reject-publish-dlx"))},
			QueueArgs{Overflow: RejectPublishDLX}},
		{"dead-letter exchange", routing.Headers{header("x-dead-letter-exchange", "dead")},
			QueueArgs{DeadLetter: &DeadLetter{Exchange: "dead"}}},
		{"dead letters to the default exchange, key first",
			routing.Headers{header("x-dead-letter-routing-key", "q"), header("x-dead-letter-exchange", "")},
			QueueArgs{DeadLetter: &DeadLetter{Key: "q", HasKey: true}}},
		{"an empty dead-letter key is a key",
			routing.Headers{header("x-dead-letter-exchange", "dead"), header("x-dead-letter-routing-key", "")},
			QueueArgs{DeadLetter: &DeadLetter{Exchange: "dead", HasKey: true}}},
		{"priority", routing.Headers{header("x-max-priority", uint16(255))}, QueueArgs{MaxPriority: 255}},
		{"single active consumer", routing.Headers{header("x-single-active-consumer", true)}, QueueArgs{SingleActive: true}},
		{"single active consumer, from text", routing.Headers{header("x-single-active-consumer", "true")}, QueueArgs{SingleActive: true}},
		{"not single, from text", routing.Headers{header("x-single-active-consumer", "false")}, QueueArgs{}},
		{"delivery limit, from text", routing.Headers{header("x-delivery-limit", "20")}, QueueArgs{DeliveryLimit: 20, HasLimit: true}},
		{"redelivery delay", routing.Headers{header("x-redelivery-delay", "250")}, QueueArgs{RedeliverWait: 250 * time.Millisecond}},
		{"last value key", routing.Headers{header("x-last-value-key", "device")}, QueueArgs{LastValueKey: "device"}},
		{"shown", routing.Headers{header("x-queue-type", "quorum"), header("x-queue-mode", "lazy"), header("x-queue-version", int32(2)), header("owner", []any{"a"})},
			QueueArgs{Shown: routing.Headers{header("x-queue-type", "quorum"), header("x-queue-mode", "lazy"),
				header("x-queue-version", int32(2)), header("owner", []any{"a"})}}},
	} {
		t.Run(c.title, func(t *testing.T) {
			got, err := ParseQueueArgs(c.in)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Fatalf("got %+v, %v, want %+v", got, err, c.want)
			}
			again, err := ParseQueueArgs(got.Headers())
			if err != nil || !reflect.DeepEqual(again, got) {
				t.Errorf("through Headers it became %+v, %v", again, err)
			}
		})
	}
}

func TestParseQueueArgsRefuses(t *testing.T) {
	long := strings.Repeat("n", maxName+1)
	for _, c := range []struct {
		title, names string
		kind         error
		in           routing.Headers
	}{
		{"unknown argument", "x-unknown", ErrUnsupported, routing.Headers{header("x-unknown", int32(1))}},
		{"stream", "x-queue-type", ErrUnsupported, routing.Headers{header("x-queue-type", "stream")}},
		{"queue type", "x-queue-type", ErrInvalid, routing.Headers{header("x-queue-type", "fifo")}},
		{"queue type is no text", "x-queue-type", ErrInvalid, routing.Headers{header("x-queue-type", true)}},
		{"queue mode is no text", "x-queue-mode", ErrInvalid, routing.Headers{header("x-queue-mode", int32(1))}},
		{"queue version", "x-queue-version", ErrInvalid, routing.Headers{header("x-queue-version", int32(0))}},
		{"twice", "x-max-length", ErrInvalid, routing.Headers{header("x-max-length", int32(1)), header("x-max-length", int32(1))}},
		{"negative TTL", "x-message-ttl", ErrInvalid, routing.Headers{header("x-message-ttl", int32(-1))}},
		{"TTL over the limit", "x-message-ttl", ErrInvalid, routing.Headers{header("x-message-ttl", int64(math.MaxUint32+1))}},
		{"TTL over every limit", "x-message-ttl", ErrInvalid, routing.Headers{header("x-message-ttl", uint64(math.MaxUint64))}},
		{"TTL is a fraction", "x-message-ttl", ErrInvalid, routing.Headers{header("x-message-ttl", 1.5)}},
		{"TTL is a word", "x-message-ttl", ErrInvalid, routing.Headers{header("x-message-ttl", "soon")}},
		{"TTL with a sign", "x-message-ttl", ErrInvalid, routing.Headers{header("x-message-ttl", "+5")}},
		{"TTL is nothing", "x-message-ttl", ErrInvalid, routing.Headers{header("x-message-ttl", nil)}},
		{"TTL is no text", "x-message-ttl", ErrInvalid, routing.Headers{header("x-message-ttl", "")}},
		{"expires at once", "x-expires", ErrInvalid, routing.Headers{header("x-expires", int32(0))}},
		{"negative length", "x-max-length", ErrInvalid, routing.Headers{header("x-max-length", int64(-1))}},
		{"length over the limit", "x-max-length", ErrInvalid, routing.Headers{header("x-max-length", uint64(1<<63))}},
		{"negative bytes", "x-max-length-bytes", ErrInvalid, routing.Headers{header("x-max-length-bytes", "-5")}},
		{"overflow", "x-overflow", ErrInvalid, routing.Headers{header("x-overflow", "drop-tail")}},
		{"overflow is no text", "x-overflow", ErrInvalid, routing.Headers{header("x-overflow", int32(1))}},
		{"dead-letter exchange is no text", "x-dead-letter-exchange", ErrInvalid, routing.Headers{header("x-dead-letter-exchange", int32(1))}},
		{"dead-letter exchange is too long", "x-dead-letter-exchange", ErrInvalid, routing.Headers{header("x-dead-letter-exchange", long)}},
		{"dead-letter key alone", "x-dead-letter-routing-key", ErrInvalid, routing.Headers{header("x-dead-letter-routing-key", "k")}},
		{"dead-letter key with NUL", "x-dead-letter-routing-key", ErrInvalid, routing.Headers{header("x-dead-letter-exchange", ""),
			header("x-dead-letter-routing-key", "a\x00b")}},
		{"priority of zero", "x-max-priority", ErrInvalid, routing.Headers{header("x-max-priority", uint8(0))}},
		{"priority over 255", "x-max-priority", ErrInvalid, routing.Headers{header("x-max-priority", int32(256))}},
		{"single active consumer", "x-single-active-consumer", ErrInvalid, routing.Headers{header("x-single-active-consumer", int32(1))}},
		{"delivery limit", "x-delivery-limit", ErrInvalid, routing.Headers{header("x-delivery-limit", int32(-2))}},
		{"redelivery delay", "x-redelivery-delay", ErrInvalid, routing.Headers{header("x-redelivery-delay", int32(-1))}},
		{"last value key", "x-last-value-key", ErrInvalid, routing.Headers{header("x-last-value-key", "")}},
	} {
		t.Run(c.title, func(t *testing.T) {
			got, err := ParseQueueArgs(c.in)
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("error %v, want %v that names %s", err, c.kind, c.names)
			}
			if !reflect.DeepEqual(got, QueueArgs{}) {
				t.Errorf("arguments %+v beside an error", got)
			}
		})
	}
}

// Whatever is read is read again the same from Headers.
func FuzzParseQueueArgs(f *testing.F) {
	f.Add("x-message-ttl", "5", "x-overflow", "reject-publish")
	f.Add("x-dead-letter-exchange", "", "x-dead-letter-routing-key", "k")
	f.Add("x-queue-type", "classic", "free", "text")
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2 string) {
		args, err := ParseQueueArgs(routing.Headers{header(n1, v1), header(n2, v2)})
		if err != nil {
			if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		again, err := ParseQueueArgs(args.Headers())
		if err != nil || !reflect.DeepEqual(again, args) {
			t.Fatalf("%+v became %+v, %v", args, again, err)
		}
	})
}
