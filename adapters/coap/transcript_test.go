package coap

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/routing"
)

var update = flag.Bool("update", false, "rewrite what the transcripts expect")

// TestTranscripts plays ../../testdata/coap/*.txt; README.md there says how they
// are written.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("../../testdata/coap/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sections := strings.Split("\n"+string(text), "\n== ")
			for i := 1; i < len(sections); i++ {
				title, body, _ := strings.Cut(sections[i], "\n")
				t.Run(title, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { sections[i] = title + "\n" + playTranscript(t, body) })
				})
			}
			if *update && !t.Failed() {
				whole := strings.TrimPrefix(strings.Join(sections, "\n== "), "\n")
				if err := os.WriteFile(file, []byte(whole), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// transcript is a section that is being played.
type transcript struct {
	*scene
	t   *testing.T
	cfg Config
	no  []string // filters that nobody may use
	// The last ETag and Echo that came, for $ETag and $Echo.
	seen     map[message.OptionID][]byte
	location string // the last Location-Path, for $Location
	wires    map[string]*wire
}

// playTranscript returns the section with what came for what is expected.
func playTranscript(t *testing.T, text string) string {
	tr := &transcript{t: t, cfg: DefaultConfig(), seen: map[message.OptionID][]byte{}, wires: map[string]*wire{}}
	defer func() {
		for _, w := range tr.wires {
			w.close()
		}
		if tr.scene != nil {
			tr.end()
		}
	}()
	lines := strings.Split(text, "\n")
	var out []string
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if line == "" || line[0] == '#' {
			out = append(out, line)
			continue
		}
		var want []string
		for i+1 < len(lines) && expectation(lines[i+1]) {
			i++
			want = append(want, lines[i])
		}
		got, err := tr.step(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if !*update && !slices.Equal(got, want) {
			t.Errorf("%s\n got:\n  %s\n want:\n  %s", line, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
		out = append(append(out, line), got...)
	}
	return strings.Join(out, "\n")
}

func expectation(line string) bool {
	_, rest, ok := strings.Cut(line, " ")
	return ok && strings.HasPrefix(rest, "< ")
}

// step carries out a line and returns what all clients got.
func (tr *transcript) step(line string) ([]string, error) {
	words := strings.Fields(line)
	switch words[0] {
	case "with":
		return nil, tr.set(strings.TrimPrefix(line, "with "))
	case "denied":
		tr.no = append(tr.no, words[1:]...)
		return nil, nil
	}
	if tr.scene == nil {
		tr.scene = newSceneWith(tr.t, tr.cfg, tr.policy())
	}
	switch words[0] {
	case "wait":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			return nil, err
		}
		time.Sleep(d)
	case "publish", "retain", "atmostonce":
		if err := tr.publish(words); err != nil {
			return nil, err
		}
	case "stop":
		if err := tr.server.Shutdown(tr.t.Context()); err != nil {
			return nil, err
		}
	default:
		if strings.HasPrefix(words[0], "tcp") {
			if err := tr.actOnWire(words[0], words[1], strings.TrimSpace(line[strings.Index(line, words[1])+len(words[1]):])); err != nil {
				return nil, err
			}
			break
		}
		if err := tr.act(tr.client(words[0]), words[1], strings.TrimSpace(line[strings.Index(line, words[1])+len(words[1]):])); err != nil {
			return nil, err
		}
	}
	synctest.Wait()
	return tr.news(), nil
}

// set changes a setting, a line of the file.
func (tr *transcript) set(text string) error {
	key, value, _ := strings.Cut(text, " = ")
	if d, err := time.ParseDuration(strings.Trim(value, `"`)); err == nil {
		text = key + " = " + strconv.FormatInt(int64(d), 10)
	}
	return toml.Unmarshal([]byte(text), &tr.cfg)
}

func (tr *transcript) policy() auth.Policy {
	if len(tr.no) == 0 {
		return nil
	}
	return func(_ auth.Principal, a auth.Action, o auth.Object) error {
		if slices.Contains(tr.no, a.String()+":"+o.Name) {
			return fmt.Errorf("denied")
		}
		return nil
	}
}

// publish is a message of the broker's own: publish TOPIC TEXT [CONTENT-TYPE].
func (tr *transcript) publish(words []string) error {
	topic, err := routing.ParseTopic(words[1])
	if err != nil {
		return err
	}
	text, err := unquote(words[2])
	m := &core.Message{Exchange: core.TopicExchange, Topic: topic, Payload: []byte(text), Guarantee: core.AtLeastOnce, Retain: words[0] == "retain"}
	if len(words) > 3 {
		m.Props = &core.Properties{ContentType: strings.Join(words[3:], " ")}
	}
	tr.broker.PublishOwn(m)
	return err
}

// unquote reads a word as Go text, "x*N" as N times x.
func unquote(word string) (string, error) {
	if x, n, ok := strings.Cut(word, "*"); ok && !strings.HasPrefix(word, `"`) {
		count, err := strconv.Atoi(n)
		return strings.Repeat(x, count), err
	}
	if strings.HasPrefix(word, `"`) {
		return strconv.Unquote(word)
	}
	return word, nil
}

// act is what a client does.
func (tr *transcript) act(c *client, verb, rest string) error {
	switch verb {
	case ">":
		p, err := readMessage(tr.filled(rest))
		if err != nil {
			return err
		}
		c.send(p.append(nil))
	case "raw":
		b, err := hex.DecodeString(strings.ReplaceAll(rest, " ", ""))
		if err != nil {
			return err
		}
		c.send(b)
	case "acks":
		c.send(appendEmpty(nil, message.Acknowledgement, c.last.id))
	case "resets":
		c.send(appendEmpty(nil, message.Reset, c.last.id))
	default:
		return fmt.Errorf("no verb %q", verb)
	}
	return nil
}

// filled is a line with what came before in place of its names.
func (tr *transcript) filled(text string) string {
	for id, name := range map[message.OptionID]string{message.ETag: "$ETag", message.Echo: "$Echo"} {
		text = strings.ReplaceAll(text, name, "hex:"+hex.EncodeToString(tr.seen[id]))
	}
	return strings.ReplaceAll(text, "$Location", tr.location)
}

var optionNames = map[string]message.OptionID{
	"If-Match": message.IfMatch, "Uri-Host": message.URIHost, "ETag": message.ETag, "If-None-Match": message.IfNoneMatch,
	"Observe": message.Observe, "Uri-Port": message.URIPort, "Location-Path": message.LocationPath, "Uri-Path": message.URIPath,
	"Content-Format": message.ContentFormat, "Max-Age": message.MaxAge, "Uri-Query": message.URIQuery, "Accept": message.Accept,
	"Block2": message.Block2, "Block1": message.Block1, "Size2": message.Size2, "Proxy-Uri": message.ProxyURI,
	"Proxy-Scheme": message.ProxyScheme, "Size1": message.Size1, "Echo": message.Echo, "No-Response": message.NoResponse,
	"Request-Tag": message.RequestTag,
}

var requestCodes = map[string]codes.Code{"GET": codes.GET, "POST": codes.POST, "PUT": codes.PUT, "DELETE": codes.DELETE,
	"FETCH": codes.FETCH, "PATCH": codes.PATCH, "iPATCH": codes.IPATCH, "EMPTY": codes.Empty}

// readMessage reads KIND CODE ID TOKEN [/path?query] [Option=value]… [payload].
func readMessage(text string) (*outgoingPacket, error) {
	words := strings.Fields(text)
	if len(words) < 3 {
		return nil, fmt.Errorf("KIND CODE ID TOKEN …")
	}
	p := &outgoingPacket{kind: message.Type(slices.Index([]string{"CON", "NON", "ACK", "RST"}, words[0]))}
	var err error
	if p.code, err = readCode(words[1]); err != nil {
		return nil, err
	}
	id, err := strconv.ParseUint(words[2], 10, 16)
	if err != nil {
		return nil, err
	}
	p.id = uint16(id)
	return p, readWords(p, words[3:])
}

func readCode(word string) (codes.Code, error) {
	if code, ok := requestCodes[word]; ok {
		return code, nil
	}
	var class, detail int
	_, err := fmt.Sscanf(word, "%d.%d", &class, &detail)
	return codes.Code(class<<5 | detail), err
}

// readWords reads a token and what follows it.
func readWords(p *outgoingPacket, words []string) error {
	for i, w := range words {
		if err := readWord(p, i, w); err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
	}
	return nil
}

func readWord(p *outgoingPacket, i int, w string) error {
	if i == 0 {
		if w == "-" {
			return nil
		}
		b, err := hex.DecodeString(w)
		p.token = makeToken(b)
		return err
	}
	if strings.HasPrefix(w, "/") {
		path, query, has := strings.Cut(w, "?")
		for _, s := range strings.Split(path[1:], "/") {
			p.options = p.options.Add(message.Option{ID: message.URIPath, Value: []byte(s)})
		}
		if has {
			for _, q := range strings.Split(query, "&") {
				p.options = p.options.Add(message.Option{ID: message.URIQuery, Value: []byte(q)})
			}
		}
		return nil
	}
	name, value, has := strings.Cut(w, "=")
	id, known := optionNames[name]
	if n, err := strconv.ParseUint(strings.TrimPrefix(name, "option"), 10, 16); err == nil && !known {
		id, known = message.OptionID(n), true
	}
	if has && known {
		b, err := readOption(id, value)
		p.options = p.options.Add(message.Option{ID: id, Value: b})
		return err
	}
	text, err := unquote(w)
	if x, ok := strings.CutPrefix(w, "hex:"); ok {
		b, err := hex.DecodeString(x)
		p.payload = b
		return err
	}
	p.payload = []byte(text)
	return err
}

func readOption(id message.OptionID, value string) ([]byte, error) {
	if x, ok := strings.CutPrefix(value, "hex:"); ok {
		return hex.DecodeString(x)
	}
	if id == message.Block1 || id == message.Block2 {
		var num, size int
		var more string
		if _, err := fmt.Sscanf(strings.NewReplacer("/", " ", "BERT", "0").Replace(value), "%d %s %d", &num, &more, &size); err != nil {
			return nil, err
		}
		b := block{num: uint32(num), more: more == "m", szx: szxOf(size)}
		if size == 0 { // BERT
			b.szx = bertSZX
		}
		return b.value(), nil
	}
	if number(id) {
		n, err := strconv.ParseUint(value, 10, 32)
		return uintBytes(uint32(n)), err
	}
	return []byte(value), nil
}

func number(id message.OptionID) bool {
	switch id {
	case message.Observe, message.URIPort, message.ContentFormat, message.MaxAge, message.Accept, message.Size1, message.Size2, message.NoResponse:
		return true
	}
	return false
}

// news are the lines for what all clients got.
func (tr *transcript) news() []string {
	var lines []string
	names := make([]string, 0, len(tr.clients))
	for name := range tr.clients {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, p := range tr.clients[name].got() {
			lines = append(lines, name+" < "+shownPacket(&p))
			tr.note(&p)
		}
	}
	return append(lines, tr.wireNews()...)
}

// note keeps what later lines may refer to.
func (tr *transcript) note(p *packet) {
	location := ""
	for _, o := range p.options {
		tr.seen[o.ID] = o.Value
		if o.ID == message.LocationPath {
			location += "/" + string(o.Value)
		}
	}
	if location != "" {
		tr.location = location
	}
}

// shownPacket is a message as transcripts have it; what differs from run to run
// is starred.
func shownPacket(p *packet) string {
	id := strconv.Itoa(int(p.id))
	if p.kind == message.Confirmable || p.kind == message.NonConfirmable {
		id = "*"
	}
	kind := []string{"CON", "NON", "ACK", "RST"}[p.kind]
	return strings.Join([]string{kind, shownCode(p.code), id, shownRest(p, shownOption)}, " ")
}

func shownCode(code codes.Code) string {
	if code == codes.Empty {
		return "EMPTY"
	}
	return fmt.Sprintf("%d.%02d", code>>5, code&31)
}

// shownRest is the token and what is behind it.
func shownRest(p *packet, option func(message.Option) string) string {
	var words []string
	if p.token.n == 0 {
		words = append(words, "-")
	} else {
		words = append(words, hex.EncodeToString(p.token.bytes()))
	}
	for _, o := range p.options {
		words = append(words, option(o))
	}
	if n := len(p.payload); n > 200 {
		words = append(words, fmt.Sprintf("%q…%d", p.payload[:4], n))
	} else if n > 0 && !printable(p.payload) {
		words = append(words, "hex:"+hex.EncodeToString(p.payload))
	} else if n > 0 {
		words = append(words, strconv.Quote(string(p.payload)))
	}
	return strings.Join(words, " ")
}

func printable(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

func shownOption(o message.Option) string {
	name := fmt.Sprintf("option%d", o.ID)
	for n, id := range optionNames {
		if id == o.ID {
			name = n
		}
	}
	switch {
	case o.ID == message.ETag || o.ID == message.Observe || o.ID == message.Echo:
		return name + "=*"
	case o.ID == message.Block1 || o.ID == message.Block2:
		var b block
		b.read(o.Value, true)
		more := "-"
		if b.more {
			more = "m"
		}
		if b.szx == bertSZX {
			return fmt.Sprintf("%s=%d/%s/BERT", name, b.num, more)
		}
		return fmt.Sprintf("%s=%d/%s/%d", name, b.num, more, b.size())
	case number(o.ID):
		return fmt.Sprintf("%s=%d", name, uintOf(o.Value))
	}
	return name + "=" + starred(string(o.Value))
}

// starred hides names that the broker mints.
func starred(s string) string {
	if len(s) == 26 && strings.ToUpper(s) == s {
		return "*"
	}
	return s
}
