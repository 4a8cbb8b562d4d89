package bench

import (
	"context"
	"log/slog"
	"net"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"entrepot/adapters/coap"
	"entrepot/core"
	"entrepot/core/local"
)

// coapServer starts a server on the loopback and returns the URL of its topics.
func coapServer(t *testing.T) string {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	broker := core.NewBroker(core.DefaultConfig(), "/", local.New(log), nil, log)
	cfg := coap.DefaultConfig()
	cfg.Pacing = false
	s := coap.New(cfg, core.NewRealms(broker), log)
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(conn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		broker.Close()
	})
	return "coap://" + conn.LocalAddr().String() + "/t/bench"
}

// againstCoap is a short run of a kind.
func againstCoap(kind, url string) Options {
	o := DefaultOptions()
	o.Kind, o.Publish, o.Procs = kind, url, 0
	o.Publishers, o.Subscribers, o.Window = 3, 5, 8
	o.Warmup, o.Duration, o.Every, o.Stall = 0, 300*time.Millisecond, 20*time.Millisecond, 20*time.Second
	return o
}

func expectCoap(t *testing.T, o Options, each uint64) {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Sent == 0 || r.Delivered < each*r.Sent || r.Lost+r.Refused != 0 || r.Rate <= 0 || r.LatencyP99 < r.LatencyP50 || r.LatencySamples == 0 {
		t.Errorf("%+v", r)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil || !strings.HasPrefix(text.String(), o.Kind+": ") {
		t.Errorf("%v\n%s", err, &text)
	}
}

// Each kind of run against our own server: every answer and, for all observers,
// every value.
func TestCoapRuns(t *testing.T) {
	for kind, each := range map[string]uint64{Put: 1, Observe: 5, Devices: 1} {
		t.Run(kind, func(t *testing.T) { expectCoap(t, againstCoap(kind, coapServer(t)), each) })
	}
}

// The same against libcoap's example server.
func TestCoapRunsAgainstLibcoap(t *testing.T) {
	program, err := exec.LookPath("coap-server-notls")
	if err != nil {
		t.Skip("no coap-server-notls (libcoap3-bin)")
	}
	free, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.LocalAddr().(*net.UDPAddr).Port
	free.Close()
	server := exec.Command(program, "-A", "127.0.0.1", "-p", strconv.Itoa(port), "-d", "100", "-N")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	awaitCoap(t, port)
	for kind, each := range map[string]uint64{Put: 1, Observe: 5, Devices: 1} {
		t.Run(kind, func(t *testing.T) {
			o := againstCoap(kind, "coap://127.0.0.1:"+strconv.Itoa(port)+"/"+kind)
			o.PIDs = []int{server.Process.Pid}
			expectCoap(t, o, each)
		})
	}
}

// awaitCoap waits until a server answers a ping (RFC 7252, 4.3).
func awaitCoap(t *testing.T, port int) {
	t.Helper()
	conn, err := net.Dial("udp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); {
		conn.Write([]byte{0x40, 0, 0, 1})
		conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := conn.Read(make([]byte, 16)); err == nil && n == 4 {
			return
		} else if err != nil && !isTimeout(err) {
			runtime.Gosched() // refused: not open yet
		}
	}
	t.Fatal("the server does not answer")
}

// A server that is not there, and one whose resource is not to be had.
func TestCoapFaults(t *testing.T) {
	url := coapServer(t)
	o := againstCoap(Put, strings.Replace(url, "/t/", "/none/", 1))
	if r, err := Run(t.Context(), o); err != nil || r.Refused != r.Delivered || r.Refused == 0 {
		t.Errorf("%v %+v", err, r)
	}
	o = againstCoap(Observe, strings.Replace(url, "/t/", "/none/", 1))
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "4.04") {
		t.Error(err)
	}
	closed, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, kind := range []string{Put, Observe, Devices} {
		if _, err := Run(t.Context(), againstCoap(kind, "coap://"+closed.LocalAddr().String()+"/t")); err == nil {
			t.Errorf("%s: no error", kind)
		}
	}
}

func TestCoapOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"size":     func(o *Options) { o.Size = 2000 },
		"messages": func(o *Options) { o.Messages = 1 },
		"window":   func(o *Options) { o.Window = 0 },
		"every":    func(o *Options) { o.Kind, o.Every = Devices, 0 },
		"kind":     func(o *Options) { o.Kind, o.Subscribers = Pair, 3 },
		"mqtt":     func(o *Options) { o.Publish = "mqtt://127.0.0.1" },
	} {
		o := againstCoap(Put, "coap://127.0.0.1/t")
		change(&o)
		if _, _, err := o.complete(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// FuzzCoapMessage: what a server sends is read or refused, whatever it is.
func FuzzCoapMessage(f *testing.F) {
	f.Add(coapRequest(coapPut, []string{"t", "a long level of a path"}, true, 20))
	f.Add([]byte{0x60, 0, 1, 2})
	f.Add([]byte{0x40, 69, 1, 2, 0xEE, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m coapMessage
		if err := m.read(b); err == nil && len(m.payload) > len(b) {
			t.Errorf("%x: %d bytes", b, len(m.payload))
		}
	})
}
