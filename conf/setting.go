package conf

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// setting is one key: its path in the file and the place of its value.
type setting struct {
	path  []string
	value reflect.Value
}

func (s setting) key() string { return strings.Join(s.path, ".") }

// settings lists every key of c, whose fields they then set.
func (c *Config) settings() []setting { return settingsOf(nil, reflect.ValueOf(c).Elem()) }

func settingsOf(path []string, v reflect.Value) []setting {
	if v.Kind() != reflect.Struct {
		return []setting{{path, v}}
	}
	var all []setting
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if name := keyOf(f); name != "-" && f.IsExported() {
			all = append(all, settingsOf(append(path[:len(path):len(path)], name), v.Field(i))...)
		}
	}
	return all
}

// keyOf is a field's tag, or else its name in small letters: MaxMessage is
// max_message.
func keyOf(f reflect.StructField) string {
	if tag, ok := f.Tag.Lookup("toml"); ok {
		name, _, _ := strings.Cut(tag, ",")
		return name
	}
	var b strings.Builder
	for i, r := range f.Name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// set takes a value as the TOML reader has it. Its errors say what the key
// wants.
func (s setting) set(v any) error {
	switch s.value.Interface().(type) {
	case time.Duration:
		return s.setDuration(v)
	case []string:
		return s.setList(v)
	}
	switch s.value.Kind() {
	case reflect.Slice:
		return s.setTables(v)
	case reflect.Map:
		return assign[map[string]any](s.value, v, "a table such as { x-max-length = 1000 }")
	case reflect.Bool:
		return assign[bool](s.value, v, "true or false")
	case reflect.String:
		return assign[string](s.value, v, `a text in quotes`)
	case reflect.Float64:
		if n, ok := v.(int64); ok {
			v = float64(n)
		}
		return assign[float64](s.value, v, "a number")
	}
	return s.setInteger(v)
}

func assign[T any](to reflect.Value, v any, want string) error {
	x, ok := v.(T)
	if !ok {
		return wants(want, v)
	}
	to.Set(reflect.ValueOf(x).Convert(to.Type()))
	return nil
}

// wants is the error for a value of another kind.
func wants(what string, v any) error {
	shown := fmt.Sprint(v)
	if text, ok := v.(string); ok {
		shown = strconv.Quote(text)
	}
	return fmt.Errorf("wants %s, not %s", what, shown)
}

func (s setting) setDuration(v any) error {
	text, _ := v.(string)
	d, err := time.ParseDuration(text)
	if err != nil {
		return wants(`a time such as "10s" or "1m30s"`, v)
	}
	s.value.SetInt(int64(d))
	return nil
}

func (s setting) setList(v any) error {
	const want = `a list of texts such as ["a", "b"]`
	items, ok := v.([]any)
	if !ok {
		return wants(want, v)
	}
	list := make([]string, len(items))
	for i, item := range items {
		if list[i], ok = item.(string); !ok {
			return wants(want, v)
		}
	}
	s.value.Set(reflect.ValueOf(list))
	return nil
}

// setTables takes a list of tables, each for a struct of the slice.
func (s setting) setTables(v any) error {
	tables, ok := v.([]any)
	list := reflect.MakeSlice(s.value.Type(), len(tables), len(tables))
	for i, one := range tables {
		table, is := one.(map[string]any)
		if ok = ok && is; !ok {
			break
		}
		known := map[string]setting{}
		for _, s := range settingsOf(nil, list.Index(i)) {
			known[s.key()] = s
		}
		for _, key := range slices.Sorted(maps.Keys(table)) {
			in, found := known[key]
			err := unknown(key, false, slices.Sorted(maps.Keys(known)))
			if found {
				err = in.set(table[key])
			}
			if err != nil {
				return fmt.Errorf("%d: %s: %w", i+1, key, err)
			}
		}
	}
	if !ok {
		return wants("sections such as [["+s.key()+"]]", v)
	}
	s.value.Set(list)
	return nil
}

func (s setting) setInteger(v any) error {
	n, ok := v.(int64)
	if text, is := v.(string); is {
		n, ok = size(text)
	}
	if !ok {
		return wants(`a whole number, or one such as "16MiB"`, v)
	}
	switch {
	case s.value.CanInt() && !s.value.OverflowInt(n):
		s.value.SetInt(n)
	case s.value.CanUint() && n >= 0 && !s.value.OverflowUint(uint64(n)):
		s.value.SetUint(uint64(n))
	default:
		return fmt.Errorf("%d does not fit", n)
	}
	return nil
}

// size reads a number of KiB, MiB or GiB.
func size(text string) (int64, bool) {
	for suffix, shift := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30} {
		if digits, ok := strings.CutSuffix(text, suffix); ok {
			n, err := strconv.ParseUint(digits, 10, 63)
			return int64(n << shift), err == nil && bits.Len64(n)+shift < 64
		}
	}
	return 0, false
}

// setText takes a value from the environment: as in the file, without quotes;
// a list is parted by commas.
func (s setting) setText(text string) error {
	var v any = text
	switch s.value.Interface().(type) {
	case time.Duration:
		return s.set(text)
	case []string:
		var list []any
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, item)
			}
		}
		return s.set(list)
	}
	switch s.value.Kind() {
	case reflect.Slice:
		return errors.New("stands in the settings file only")
	case reflect.String:
	case reflect.Bool:
		if b, err := strconv.ParseBool(text); err == nil {
			v = b
		}
	case reflect.Float64:
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			v = f
		}
	default:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			v = n
		}
	}
	return s.set(v)
}
