package admin

import (
	"encoding/base64"
	"fmt"
	"math"
	"time"

	"entrepot/routing"
)

func encodeBytes(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// plain is a header's value as encoding/json writes it: tables as objects,
// bytes in base64.
func plain(v any) any {
	switch v := v.(type) {
	case routing.Headers:
		object := map[string]any{}
		for _, h := range v {
			object[h.Name] = plain(h.Value)
		}
		return object
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plain(v[i])
		}
		return list
	case float32:
		return plain(float64(v))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}
	case routing.Decimal:
		return float64(v.Value) / math.Pow10(int(v.Scale))
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	}
	return v
}
