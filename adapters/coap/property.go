package coap

import (
	"bytes"
	"math"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/routing"
)

// Keys of topic properties (draft-ietf-core-coap-pubsub-21, section 3.1).
const (
	keyName = iota
	keyData
	keyKind
	keyFormat
	keyTopicType
	keyExpiration
	keyMost
	keyCheck
	keyInitialize
	propertyKeys
)

// maxPropertyText bounds the texts of a configuration: topic-data may have three
// bytes for each one of the name.
const maxPropertyText = 1024

// properties are a map of topic properties as a client sent it; every value has
// its type.
type properties map[int]any

// decoding is strict: no key twice, nothing deep, nothing without an end.
func decoding() cbor.DecOptions {
	return cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden,
		MaxNestedLevels: 4, MaxArrayElements: 64, MaxMapPairs: 64, UTF8: cbor.UTF8RejectInvalid,
		TimeTag: cbor.DecTagIgnored, IntDec: cbor.IntDecConvertNone}
}

func decodeCBOR(b []byte, to any) error {
	mode, err := decoding().DecMode()
	if err == nil {
		err = mode.Unmarshal(b, to)
	}
	if err != nil {
		return refuse(codes.BadRequest, "the payload is not CBOR of the form that is needed")
	}
	return nil
}

// properties reads the map of a request.
func (r *request) properties(format int) (properties, error) {
	if r.format != format {
		return nil, refuse(codes.UnsupportedMediaType, "content format %d", format)
	}
	raw := map[int64]cbor.RawMessage{}
	if err := decodeCBOR(r.payload, &raw); err != nil {
		return nil, err
	}
	p := properties{}
	for key, value := range raw {
		v, err := decodeProperty(key, value)
		if err != nil {
			return nil, err
		}
		p[int(key)] = v
	}
	return p, nil
}

// Major types of CBOR (RFC 8949, 3.1).
const (
	majorUint  = 0
	majorBytes = 2
	majorText  = 3
	majorTag   = 6
)

// decodeTyped reads a value that has to be of a major type.
func decodeTyped(b cbor.RawMessage, major byte, to any) bool {
	return len(b) > 0 && b[0]>>5 == major && decodeCBOR(b, to) == nil
}

// decodeProperty reads a value by the type of its key.
func decodeProperty(key int64, b cbor.RawMessage) (any, error) {
	var (
		value any
		good  bool
	)
	switch key {
	case keyName, keyData, keyKind, keyTopicType:
		var text string
		good = decodeTyped(b, majorText, &text)
		value = text
		if len(text) > maxPropertyText {
			return nil, refuse(codes.BadRequest, "property %d has at most %d bytes", key, maxPropertyText)
		}
	case keyFormat, keyMost, keyCheck:
		value, good = decodeNumber(key, b)
	case keyExpiration:
		value, good = decodeTime(b)
	case keyInitialize:
		var bytes []byte
		good = decodeTyped(b, majorBytes, &bytes)
		value = bytes
	default:
		return nil, refuse(codes.BadRequest, "property %d is not known", key)
	}
	if !good {
		return nil, refuse(codes.BadRequest, "property %d has another type", key)
	}
	return value, nil
}

// decodeNumber reads a number that is in the range of its key.
func decodeNumber(key int64, b cbor.RawMessage) (any, bool) {
	var n uint64
	least, most := uint64(0), uint64(math.MaxUint32)
	switch key {
	case keyFormat:
		most = math.MaxUint16
	case keyCheck:
		least = 1
	}
	good := decodeTyped(b, majorUint, &n)
	return int(n), good && n >= least && n <= most
}

// decodeTime reads an epoch time with tag 1.
func decodeTime(b cbor.RawMessage) (any, bool) {
	var tag cbor.RawTag
	var n float64
	if !decodeTyped(b, majorTag, &tag) || tag.Number != 1 || decodeCBOR(tag.Content, &n) != nil || !(math.Abs(n) <= 1<<40) {
		return nil, false
	}
	whole, part := math.Modf(n)
	return time.Unix(int64(whole), int64(part*1e9)), true
}

// decodeKeys reads an array of keys.
func decodeKeys(b []byte) ([]int, error) {
	var raw []uint64
	if err := decodeCBOR(b, &raw); err != nil {
		return nil, err
	}
	keys := []int{-1} // so that no keys are not all
	for _, k := range raw {
		if k < propertyKeys {
			keys = append(keys, int(k))
		}
	}
	return keys, nil
}

// topic is the topic that the properties name.
func (p properties) topic() (routing.Topic, error) {
	name, ok := p[keyName].(string)
	if _, kind := p[keyKind]; !ok || !kind {
		return routing.Topic{}, refuse(codes.BadRequest, "topic-name and resource-type are needed")
	}
	t, err := routing.ParseTopic(name)
	switch {
	case err != nil:
		return t, refuse(codes.BadRequest, "topic-name: %v", err)
	case t.Dollar():
		return t, refuse(codes.BadRequest, "topic-name: topics that start with $ are the broker's own")
	}
	return t, nil
}

// newConfig is the configuration of a topic to be made.
func (p properties) newConfig(t routing.Topic) (topicConfig, error) {
	data, ok := dataPath(t)
	if !ok {
		return topicConfig{}, refuse(codes.BadRequest, "topic-name: at most %d bytes", routing.MaxSegment)
	}
	kind, _ := p[keyKind].(string)
	if kind == "" || bytes.ContainsAny([]byte(kind), "\"\\ ,;<>\r\n") {
		return topicConfig{}, refuse(codes.BadRequest, "resource-type: one word")
	}
	if _, initial := p[keyInitialize]; initial && p[keyFormat] == nil {
		return topicConfig{}, refuse(codes.BadRequest, "initialize needs topic-content-format")
	}
	if given, ok := p[keyData].(string); ok && !sameData(given, data) {
		return topicConfig{}, refuse(codes.BadRequest, "topic-data of this topic is %s", data)
	}
	return p.optional(topicConfig{name: t.String(), data: data, kind: kind, format: noFormat}), nil
}

// sameData compares topic-data; older peers leave the first slash out.
func sameData(given, data string) bool { return given == data || "/"+given == data }

// changed is a configuration with what the properties say; those that are
// immutable have to be the same.
func (p properties) changed(c topicConfig) (topicConfig, error) {
	name, hasName := p[keyName].(string)
	data, hasData := p[keyData].(string)
	kind, hasKind := p[keyKind].(string)
	_, initial := p[keyInitialize]
	switch {
	case hasName && name != c.name, hasData && !sameData(data, c.data), hasKind && kind != c.kind:
		return c, refuse(codes.BadRequest, "topic-name, topic-data and resource-type do not change")
	case initial:
		return c, refuse(codes.BadRequest, "initialize is for creation")
	}
	return p.optional(c), nil
}

// optional puts the optional properties into a configuration.
func (p properties) optional(c topicConfig) topicConfig {
	if n, ok := p[keyFormat].(int); ok {
		c.format = n
	}
	if text, ok := p[keyTopicType].(string); ok {
		c.topicType, c.hasType = text, true
	}
	if t, ok := p[keyExpiration].(time.Time); ok {
		c.expires = t
	}
	if n, ok := p[keyMost].(int); ok {
		c.most, c.hasMost = n, true
	}
	if n, ok := p[keyCheck].(int); ok {
		c.check = time.Duration(n) * time.Second
	}
	return c
}

// has tells whether a configuration has every given property with that value.
func (c *topicConfig) has(want properties) bool {
	have := c.properties()
	for key, value := range want {
		if t, ok := value.(time.Time); ok {
			if at, ok := have[key].(time.Time); !ok || !at.Equal(t) {
				return false
			}
			continue
		}
		if b, ok := value.([]byte); ok || have[key] == nil {
			return ok && b == nil
		}
		if have[key] != value {
			return false
		}
	}
	return true
}

// properties are the configuration by key.
func (c *topicConfig) properties() properties {
	p := properties{keyName: c.name, keyData: c.data, keyKind: c.kind}
	if c.format != noFormat {
		p[keyFormat] = c.format
	}
	if c.hasType {
		p[keyTopicType] = c.topicType
	}
	if !c.expires.IsZero() {
		p[keyExpiration] = c.expires
	}
	if c.hasMost {
		p[keyMost] = c.most
	}
	if c.check > 0 {
		p[keyCheck] = int(c.check / time.Second)
	}
	return p
}

// encode writes the configuration, or those of its properties that are named.
func (c *topicConfig) encode(only ...int) []byte {
	shown := map[int]any{}
	for key, value := range c.properties() {
		if len(only) > 0 && !slices.Contains(only, key) {
			continue
		}
		if t, ok := value.(time.Time); ok {
			value = cbor.Tag{Number: 1, Content: t.Unix()}
		}
		shown[key] = value
	}
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		return nil
	}
	b, err := mode.Marshal(shown)
	if err != nil { // nothing in it cannot be written
		return nil
	}
	return b
}
