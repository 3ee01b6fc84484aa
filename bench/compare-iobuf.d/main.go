// The rows of bench/iobuf, with buffer libraries of Go. Prints one line per row and subject: row/subject ns.
//
//	compare-iobuf -rows '^get_put/' -min-time 100ms
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

const pieceBytes = 4096

// A bench does its work times*n times and returns the time that this took.
type bench struct {
	row, subject string
	times        int
	rounds       func(n int) time.Duration
}

var benches []bench

// add: `rounds` runs n rounds, each of which does the work `times` times. The figure is the CPU time of the whole
// process, so that it includes the collector.
func add(row, subject string, times int, rounds func(n int)) {
	benches = append(benches, bench{row, subject, times, func(n int) time.Duration {
		start := processCPU()
		rounds(n)
		return processCPU() - start
	}})
}

// addTimed: only work(i), for each i below `times`, is timed, by the clock.
func addTimed(row, subject string, times int, prepare func(), work func(i int), clean func()) {
	benches = append(benches, bench{row, subject, times, func(n int) (passed time.Duration) {
		for range n {
			prepare()
			start := time.Now()
			for i := range times {
				work(i)
			}
			passed += time.Since(start)
			clean()
		}
		return passed
	}})
}

func processCPU() time.Duration {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// The CPU time of the calling thread, to which its goroutine must be locked.
func threadCPU() time.Duration {
	const clockThreadCPUTime = 3
	var now syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockThreadCPUTime, uintptr(unsafe.Pointer(&now)), 0)
	return time.Duration(now.Nano())
}

// Pieces are allocated on this goroutine's thread and released on `threads` others; see bench/iobuf/returns.cc.
func addReturn[Held any](subject string, get func() Held, put func(Held)) {
	const pieces = 4096
	for _, threads := range []int{1, 2, 4} {
		run := func(n int) (spent time.Duration) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			held := make([]Held, pieces)
			start, done := make(chan []Held), make(chan time.Duration)
			for range threads {
				go func() {
					runtime.LockOSThread()
					for part := range start {
						before := threadCPU()
						for _, each := range part {
							put(each)
						}
						done <- threadCPU() - before
					}
				}()
			}
			for range n {
				before := threadCPU()
				for i := range held {
					held[i] = get()
				}
				spent += threadCPU() - before
				for i := range threads {
					start <- held[i*pieces/threads : (i+1)*pieces/threads]
				}
				for range threads {
					spent += <-done
				}
			}
			close(start)
			return spent
		}
		benches = append(benches, bench{fmt.Sprintf("return_from/%d", threads), subject, pieces, run})
	}
}

// measure returns ns for doing the work once, from a run that took as long as minTime, or ten times as long by the
// clock, since untimed parts may take far longer.
func (b bench) measure(minTime time.Duration) float64 {
	b.rounds(4)
	for n := 1; ; {
		start := time.Now()
		took := b.rounds(n)
		if took >= minTime || time.Since(start) >= 10*minTime {
			return float64(took.Nanoseconds()) / float64(n) / float64(b.times)
		}
		more := 10.0
		if took > minTime/100 {
			more = min(more, 1.2*float64(minTime)/float64(took))
		}
		n = int(float64(n)*more) + 1
	}
}

func main() {
	list := flag.Bool("list", false, "only print the names")
	rows := flag.String("rows", "", "a regular expression")
	minTime := flag.Duration("min-time", 100*time.Millisecond, "of each bench")
	flag.Parse()
	wanted, err := regexp.Compile(*rows)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	addGvisor()
	addGrpc()
	for _, b := range benches {
		if !wanted.MatchString(b.row) {
			continue
		}
		if *list {
			fmt.Printf("%s/%s\n", b.row, b.subject)
		} else {
			fmt.Printf("%s/%s %.4f\n", b.row, b.subject, b.measure(*minTime))
		}
	}
}
