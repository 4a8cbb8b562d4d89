package bench

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestGateNeed(t *testing.T) {
	tests := []struct {
		name                  string
		window, sent, n, want uint64
	}{
		{"the first batch may go", 100, 0, 50, 0},
		{"within the window", 100, 40, 10, 0},
		{"used up: opens by half", 100, 100, 1, 50},
		{"used up: a whole batch fits", 100, 100, 50, 50},
		{"one at a time: all must have come", 1, 7, 1, 7},
		{"later on", 100, 1000, 50, 950},
	}
	for _, tt := range tests {
		g := gate{window: tt.window}
		if got := g.need(tt.sent, tt.n); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func waiting(p *progress) *publisher {
	pub := &publisher{batch: 10, timer: time.NewTimer(time.Hour)}
	pub.limit(p, 100)
	return pub
}

func TestPublisherWaitsForItsSlowestReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, quick := newProgress(), newProgress()
		p := waiting(slow)
		p.limit(quick, 100)
		p.sent.Store(100)
		quick.show(100, 100)
		done := make(chan bool)
		go func() {
			p.room(10, time.Minute, nil)
			done <- true
		}()
		synctest.Wait()
		slow.show(49, 49) // half the window is 50
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("went on too early")
		default:
		}
		slow.show(50, 50)
		<-done
		if p.ceiling != 150 || p.stalls != 0 {
			t.Errorf("ceiling %d, %d stalls", p.ceiling, p.stalls)
		}
	})
}

func TestPublisherForgivesAReaderThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := newProgress()
		p := waiting(reader)
		p.sent.Store(100)
		go func() {
			time.Sleep(50 * time.Second)
			reader.show(10, 10) // alive, so the time begins anew
		}()
		began := time.Now()
		p.room(10, time.Minute, nil)
		if took := time.Since(began); took != 2*time.Minute {
			t.Errorf("waited %v", took)
		}
		if p.stalls != 1 || p.ceiling != 200 {
			t.Errorf("%d stalls, ceiling %d", p.stalls, p.ceiling)
		}
	})
}

func TestPublisherStopsWaitingOnQuit(t *testing.T) {
	p := waiting(newProgress())
	p.sent.Store(100)
	quit := make(chan struct{})
	close(quit)
	p.room(10, time.Hour, quit)
	if p.stalls != 0 {
		t.Error("quit counts as a stall")
	}
}
