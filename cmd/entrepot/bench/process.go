package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor times in /proc: USER_HZ is 100 on all that
// Linux runs on today.
const tick = 10 * time.Millisecond

// processes is a broker seen through /proc.
type processes struct {
	roots    []int
	children bool // all descendants count too
	all      []int
}

// watch finds the processes and their descendants.
func watch(roots []int, children bool) (*processes, error) {
	p := &processes{roots: roots, children: children, all: roots}
	if children {
		if err := p.find(); err != nil {
			return nil, err
		}
	}
	for _, pid := range roots {
		if _, err := readStat(pid); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// find lists the roots and their descendants of this moment.
func (p *processes) find() error {
	files, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return fmt.Errorf("processes: %w", err)
	}
	children := map[int][]int{}
	for _, f := range files {
		pid, _ := strconv.Atoi(filepath.Base(f))
		if s, err := readStat(pid); err == nil { // else it ended meanwhile
			children[s.parent] = append(children[s.parent], pid)
		}
	}
	p.all = slices.Clone(p.roots)
	for i := 0; i < len(p.all); i++ {
		for _, c := range children[p.all[i]] {
			if !slices.Contains(p.all, c) {
				p.all = append(p.all, c)
			}
		}
	}
	return nil
}

// cpu is the user and system time that all have used since they began. With
// children it holds the time of those that have ended and were waited for.
func (p *processes) cpu() (time.Duration, error) {
	if p.children {
		if err := p.find(); err != nil {
			return 0, err
		}
	}
	var sum time.Duration
	for _, pid := range p.all {
		s, err := readStat(pid)
		if err != nil {
			if !slices.Contains(p.roots, pid) {
				continue // a child that ended meanwhile
			}
			return 0, err
		}
		sum += s.own
		if p.children {
			sum += s.ended
		}
	}
	return sum, nil
}

// resident is the memory of all in KiB, 0 for one that has ended.
func (p *processes) resident() int {
	sum := 0
	for _, pid := range p.all {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err == nil {
			sum += residentIn(status)
		}
	}
	return sum
}

// residentIn reads VmRSS.
func residentIn(status []byte) int {
	_, after, found := bytes.Cut(status, []byte("VmRSS:"))
	if !found {
		return 0
	}
	line, _, _ := strings.Cut(string(after), "\n")
	kib, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "kB")))
	return kib
}

// stat is what /proc/PID/stat tells.
type stat struct {
	parent     int
	own, ended time.Duration // of itself, of its waited-for children
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, fmt.Errorf("process %d: %w", pid, err)
	}
	s, ok := parseStat(string(text))
	if !ok {
		return stat{}, fmt.Errorf("process %d: cannot read %q", pid, text)
	}
	return s, nil
}

// parseStat begins after the last parenthesis, since a command may hold
// anything. See proc(5) for the numbers of the fields.
func parseStat(text string) (stat, bool) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const state, parent, user, system, endedUser, endedSystem = 3, 4, 14, 15, 16, 17
	if len(fields) <= endedSystem-state {
		return stat{}, false
	}
	ok := true
	at := func(field int) int {
		n, err := strconv.Atoi(fields[field-state])
		ok = ok && err == nil
		return n
	}
	s := stat{
		parent: at(parent),
		own:    time.Duration(at(user)+at(system)) * tick,
		ended:  time.Duration(at(endedUser)+at(endedSystem)) * tick,
	}
	return s, ok
}

// await waits until over or ended, unless something fails, and keeps the highest
// memory that it sees meanwhile.
func (p *processes) await(ctx context.Context, over <-chan time.Time, ended <-chan struct{}, failures <-chan error, peak *int) error {
	samples := time.NewTicker(sampleEvery)
	defer samples.Stop()
	for {
		select {
		case <-over:
			return nil
		case <-ended:
			return nil
		case err := <-failures:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-samples.C:
			*peak = max(*peak, p.resident())
		}
	}
}
