package wamp

import (
	"math"
	"strings"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

// properties reads the x_ options that describe a message (names.md, 4).
func properties(p *core.Properties, options dict) error {
	for _, m := range options {
		if !strings.HasPrefix(m.key, "x_") {
			continue
		}
		if err := property(p, m); err != nil {
			return err
		}
	}
	return nil
}

func property(p *core.Properties, m member) error {
	switch m.key {
	case "x_content_type":
		text, ok := m.value.(string)
		if !ok {
			return wrongOption(m)
		}
		p.ContentType = text
	case "x_headers":
		d, ok := m.value.(dict)
		if !ok {
			return wrongOption(m)
		}
		p.Headers = headersOf(d)
	case "x_ttl":
		n, ok := whole(m.value)
		if !ok {
			return wrongOption(m)
		}
		p.HasTTL, p.TTL = true, milliseconds(n)
	case "x_priority":
		n, ok := whole(m.value)
		if !ok || n > math.MaxUint8 {
			return wrongOption(m)
		}
		p.HasPriority, p.Priority = true, uint8(n)
	case "x_delay":
		n, ok := whole(m.value)
		if !ok {
			return wrongOption(m)
		}
		p.Delay = milliseconds(n)
	}
	return nil
}

// milliseconds is n of them, or the longest duration.
func milliseconds(n uint64) time.Duration {
	return time.Duration(min(n, uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

func wrongOption(m member) error { return refuse(errArgument, "option %s has a wrong value", m.key) }

// headersOf keeps values that every protocol can carry.
func headersOf(d dict) routing.Headers {
	hs := make(routing.Headers, 0, len(d))
	for _, m := range d {
		hs = append(hs, routing.Header{Name: m.key, Value: headerValue(m.value)})
	}
	return hs
}

func headerValue(v any) any {
	switch v := v.(type) {
	case list:
		all := make([]any, len(v))
		for i := range v {
			all[i] = headerValue(v[i])
		}
		return all
	case dict:
		return headersOf(v)
	}
	return v
}

// implied tells content types that arguments say already.
func implied(m *core.Message) bool {
	p := m.Props
	if p.ContentType == "" {
		return true
	}
	if _, ours := p.Native.(*publication); !ours {
		return false
	}
	switch p.ContentType {
	case typeText, typeBinary, typeJSON, typeWAMP:
		return true
	}
	return false
}

// appendProperties adds the x_ details that describe m.
func (c *Config) appendProperties(d dict, m *core.Message) dict {
	if m.Origin != nil && (c.OriginDetail || m.Origin.Protocol != protocol) {
		d = append(d, member{"x_origin", strings.TrimSuffix(m.Origin.Protocol+" "+m.Origin.ClientID, " ")})
	}
	p := m.Props
	if p == nil {
		return d
	}
	if !implied(m) {
		d = append(d, member{"x_content_type", p.ContentType})
	}
	if len(p.Headers) > 0 {
		d = append(d, member{"x_headers", headerDict(p.Headers)})
	}
	if left, ok := m.Remaining(time.Now()); ok {
		d = append(d, member{"x_ttl", left.Milliseconds()})
	}
	if p.HasPriority {
		d = append(d, member{"x_priority", int64(p.Priority)})
	}
	return d
}

func headerDict(hs routing.Headers) dict {
	d := make(dict, 0, len(hs))
	for _, h := range hs {
		d = append(d, member{h.Name, valueOf(h.Value)})
	}
	return d
}

// valueOf is a header's value as arguments have it.
func valueOf(v any) any {
	switch v := v.(type) {
	case nil, bool, string, []byte, int64, float64:
		return v
	case uint64:
		return fromUint(v)
	case float32:
		return float64(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case routing.Decimal:
		return float64(v.Value) / math.Pow10(int(v.Scale))
	case routing.Headers:
		return headerDict(v)
	case []any:
		all := make(list, len(v))
		for i := range v {
			all[i] = valueOf(v[i])
		}
		return all
	}
	return smallNumber(v)
}

func smallNumber(v any) any {
	switch v := v.(type) {
	case int8:
		return int64(v)
	case int16:
		return int64(v)
	case int32:
		return int64(v)
	case uint8:
		return int64(v)
	case uint16:
		return int64(v)
	case uint32:
		return int64(v)
	}
	return nil
}
