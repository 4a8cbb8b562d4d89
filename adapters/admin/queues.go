package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"entrepot/core"
	"entrepot/routing"
)

// QueueShown is a queue in an answer.
type QueueShown struct {
	Name        string `json:"name"`
	Messages    int    `json:"messages"` // ready
	Unsettled   int    `json:"unsettled"`
	Bytes       int64  `json:"bytes"`
	Consumers   int    `json:"consumers"`
	DeadLetters int    `json:"dead_letters"` // given up, no queue takes them yet
	Policy      string `json:"policy,omitempty"`
}

// MessageShown is a message in an answer.
type MessageShown struct {
	Seq      uint64         `json:"seq,omitempty"` // in its queue
	ID       string         `json:"id,omitempty"`  // of a delayed one
	Due      *time.Time     `json:"due,omitempty"`
	Exchange string         `json:"exchange"`
	Topic    string         `json:"topic"` // canonical
	Attempts uint32         `json:"attempts,omitempty"`
	Headers  map[string]any `json:"headers,omitempty"`
	Payload  string         `json:"payload"`
	// Binary: the payload is no UTF-8 and stands there in base64.
	Binary bool `json:"binary,omitempty"`
	Size   int  `json:"size"` // of the whole payload, which is cut at 4 KiB
}

// Wish is what a command asks for, Outcome what was done or why not.
type Wish struct {
	Queue string `json:"queue,omitempty"`
	To    string `json:"to,omitempty"`   // of move
	ID    string `json:"id,omitempty"`   // of a delayed message
	Most  int    `json:"most,omitempty"` // 0: all
	Pick
}

// Pick chooses messages; its zero value chooses all.
type Pick struct {
	Topic    string `json:"topic,omitempty"`    // exactly this one, canonical
	Reason   string `json:"reason,omitempty"`   // of the last death
	Contains string `json:"contains,omitempty"` // in the payload
}

// Outcome answers a command, and lists.
type Outcome struct {
	Count    int            `json:"count"`
	Error    string         `json:"error,omitempty"`
	Queues   []QueueShown   `json:"queues,omitempty"`
	Messages []MessageShown `json:"messages,omitempty"`
}

// Paths of the work on queues.
const (
	QueuesPath   = "/api/v1/queues"
	MessagesPath = QueuesPath + "/messages"
	PurgePath    = QueuesPath + "/purge"
	MovePath     = QueuesPath + "/move"
	ReplayPath   = QueuesPath + "/replay"
	DelayedPath  = "/api/v1/delayed"
	CancelPath   = DelayedPath + "/cancel"
	FirePath     = DelayedPath + "/fire"
)

const (
	pageUsual = 100
	pageMost  = 1000
	cutAt     = 4 << 10 // bytes of a payload that are shown
)

// queues does work on a broker's queues.
type queues struct {
	broker *core.Broker
	door   *door
}

// HandleQueues lets those who may work on the queues of a broker: list, browse,
// purge, move, replay, and what waits for its time. A queue's list entry,
// messages and their removal need the admin right on that queue, moving it on
// both, replaying on the queues that gave the messages up, too; the delayed
// messages the one on $SYS/delayed. Called before Serve.
func (s *Server) HandleQueues(b *core.Broker) {
	q := &queues{b, s.door}
	for path, f := range map[string]func(asker, *http.Request) (Outcome, error){
		QueuesPath: q.list, MessagesPath: q.browse, DelayedPath: q.delayed,
	} {
		s.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.asked(w, r, actOf(path), func(w http.ResponseWriter, r *http.Request, a asker) {
				o, err := f(a, r)
				if path == MessagesPath || refusal(err) != 0 {
					s.door.audit(a, actOf(path), r.FormValue("queue"), err)
				}
				answer(w, o, err)
			})
		}))
	}
	for path, f := range map[string]func(asker, Wish) (Outcome, error){
		PurgePath: q.purge, MovePath: q.move, ReplayPath: q.replay, CancelPath: q.cancel, FirePath: q.fire,
	} {
		s.handleCommand(path, actOf(path), func(w http.ResponseWriter, r *http.Request, a asker) {
			var wish Wish
			d := json.NewDecoder(r.Body)
			d.DisallowUnknownFields()
			if err := d.Decode(&wish); err != nil || wish.Most < 0 {
				answer(w, Outcome{}, errWish)
				return
			}
			o, err := f(a, wish)
			s.door.audit(a, actOf(path), cmp.Or(wish.Queue, wish.ID), err)
			answer(w, o, err)
		})
	}
}

// actOf is the name of what is asked at a path of the work on queues.
func actOf(path string) string {
	return map[string]string{
		QueuesPath: "queue_list", MessagesPath: "queue_browse", PurgePath: "queue_purge", MovePath: "queue_move",
		ReplayPath: "queue_replay", DelayedPath: "delayed_list", CancelPath: "delayed_cancel", FirePath: "delayed_fire",
	}[path]
}

var errWish = errors.New("a JSON object with queue, to, id, most, topic, reason, contains expected")

// answer writes a whole answer of the API.
func answer(w http.ResponseWriter, o Outcome, err error) {
	status := statusOf(err)
	if err != nil {
		o.Error = err.Error()
	}
	challenge(w, status)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// That the client went away meanwhile is its affair.
	_ = json.NewEncoder(w).Encode(o)
}

func statusOf(err error) int {
	switch status := refusal(err); {
	case err == nil:
		return http.StatusOK
	case status != 0:
		return status
	case errors.Is(err, errWish), errors.Is(err, core.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, core.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, core.ErrUnsupported):
		return http.StatusNotImplemented
	}
	return http.StatusConflict
}

// list shows the queues that the asker may work on.
func (q *queues) list(a asker, _ *http.Request) (o Outcome, err error) {
	for _, i := range q.broker.Queues() {
		if i.Key.Kind != core.NamedQueue || q.door.may(a, queueObject(i.Key.Name)) != nil {
			continue
		}
		o.Queues = append(o.Queues, QueueShown{i.Key.Name, i.Messages, i.Unsettled, i.Bytes, i.Consumers, i.DeadLetters, i.Policy})
	}
	if o.Count = len(o.Queues); o.Count == 0 {
		err = q.door.may(a, brokerObject("queues"))
	}
	return o, err
}

// page reads count, at most pageMost.
func page(r *http.Request) (int, error) {
	text := r.FormValue("count")
	if text == "" {
		return pageUsual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, errWish
	}
	return min(n, pageMost), nil
}

func (q *queues) browse(a asker, r *http.Request) (o Outcome, err error) {
	if err := q.door.may(a, queueObject(r.FormValue("queue"))); err != nil {
		return o, err
	}
	k, err := q.broker.Keeper()
	if err != nil {
		return o, err
	}
	n, err := page(r)
	if err != nil {
		return o, err
	}
	after := uint64(0)
	if text := r.FormValue("after"); text != "" {
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			return o, errWish
		}
	}
	pick := Pick{r.FormValue("topic"), r.FormValue("reason"), r.FormValue("contains")}
	list, err := k.Browse(core.Named(r.FormValue("queue")), after, n, pick.match())
	for _, d := range list {
		m := shown(d.Message)
		m.Seq, m.Attempts = d.Seq, d.Attempts
		o.Messages = append(o.Messages, m)
	}
	o.Count = len(list)
	return o, err
}

// match is nil when all are chosen.
func (p Pick) match() func(*core.Message) bool {
	if p == (Pick{}) {
		return nil
	}
	return func(m *core.Message) bool {
		if p.Topic != "" && m.Topic.String() != p.Topic || p.Contains != "" && !strings.Contains(string(m.Payload), p.Contains) {
			return false
		}
		if p.Reason == "" {
			return true
		}
		if m.Props == nil {
			return false
		}
		reason, _ := m.Props.Headers.Get("x-last-death-reason")
		return reason == p.Reason
	}
}

// shown is a message as JSON has it.
func shown(m *core.Message) MessageShown {
	s := MessageShown{Exchange: m.Exchange, Topic: m.Topic.String(), Size: len(m.Payload)}
	payload := m.Payload[:min(len(m.Payload), cutAt)]
	if s.Binary = !utf8.Valid(m.Payload); s.Binary {
		s.Payload = encodeBytes(payload)
	} else {
		s.Payload = strings.ToValidUTF8(string(payload), "")
	}
	if m.Props != nil && len(m.Props.Headers) > 0 {
		s.Headers = map[string]any{}
		for _, h := range m.Props.Headers {
			s.Headers[h.Name] = plain(h.Value)
		}
	}
	return s
}

// work does something to a queue of the asker's.
func (q *queues) work(a asker, w Wish, f func(core.QueueKeeper, core.QueueKey) (int, error)) (o Outcome, err error) {
	if err := q.door.may(a, queueObject(w.Queue)); err != nil {
		return o, err
	}
	k, err := q.broker.Keeper()
	if err == nil {
		o.Count, err = f(k, core.Named(w.Queue))
	}
	return o, err
}

func (q *queues) purge(a asker, w Wish) (Outcome, error) {
	return q.work(a, w, func(k core.QueueKeeper, from core.QueueKey) (int, error) {
		return k.PurgeSome(from, w.Most, w.match())
	})
}

func (q *queues) move(a asker, w Wish) (Outcome, error) {
	return q.work(a, w, func(k core.QueueKeeper, from core.QueueKey) (int, error) {
		if err := q.door.may(a, queueObject(w.To)); err != nil {
			return 0, err
		}
		return k.Move(from, core.Named(w.To), w.Most, w.match())
	})
}

// replay leaves dead letters where they are that go back to queues of others.
func (q *queues) replay(a asker, w Wish) (Outcome, error) {
	return q.work(a, w, func(k core.QueueKeeper, from core.QueueKey) (int, error) {
		chosen := w.match()
		return k.ReplayDead(from, w.Most, func(m *core.Message) bool {
			return (chosen == nil || chosen(m)) && q.door.may(a, queueObject(diedIn(m))) == nil
		})
	})
}

// diedIn is the queue that gave a message up last.
func diedIn(m *core.Message) string {
	if m.Props == nil {
		return ""
	}
	v, _ := m.Props.Headers.Get("x-death")
	deaths, _ := v.([]any)
	for _, d := range deaths {
		if last, ok := d.(routing.Headers); ok {
			queue, _ := last.Get("queue")
			name, _ := queue.(string)
			return name
		}
	}
	return ""
}

func (q *queues) delayed(a asker, r *http.Request) (o Outcome, err error) {
	if err := q.door.may(a, brokerObject("delayed")); err != nil {
		return o, err
	}
	d, err := q.broker.Delays()
	if err != nil {
		return o, err
	}
	n, err := page(r)
	if err != nil {
		return o, err
	}
	list, err := d.Delayed(r.FormValue("after"), n)
	for _, w := range list {
		m := shown(w.Message)
		m.ID, m.Due = w.ID, &w.Due
		o.Messages = append(o.Messages, m)
	}
	o.Count = len(list)
	return o, err
}

func (q *queues) cancel(a asker, w Wish) (Outcome, error) {
	return q.one(a, w, core.Delays.CancelDelayed)
}
func (q *queues) fire(a asker, w Wish) (Outcome, error) { return q.one(a, w, core.Delays.FireDelayed) }

func (q *queues) one(a asker, w Wish, f func(core.Delays, string) error) (Outcome, error) {
	if err := q.door.may(a, brokerObject("delayed")); err != nil {
		return Outcome{}, err
	}
	d, err := q.broker.Delays()
	if err == nil {
		err = f(d, w.ID)
	}
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Count: 1}, nil
}
