package command

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress shows on a terminal how much of an input was read: after a second, and then twice a
// second.
type progress struct {
	in          io.Reader
	err         io.Writer
	now         func() time.Time
	total       int64 // bytes; 0 if unknown
	done        int64
	begin, last time.Time
}

const (
	quiet    = time.Second     // before the first text
	interval = time.Second / 2 // between texts
)

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	p.done += int64(n)
	now := p.now()
	if p.begin.IsZero() {
		p.begin = now
	}
	if took := now.Sub(p.begin); took >= quiet && now.Sub(p.last) >= interval {
		p.last = now
		rate := float64(p.done) / took.Seconds()
		text := fmt.Sprintf("%s, %s/s", size(float64(p.done)), size(rate))
		if left := p.total - p.done; left >= 0 && p.total > 0 {
			text = fmt.Sprintf("%s of %s, %s/s, %v left", size(float64(p.done)), size(float64(p.total)), size(rate),
				time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second))
		}
		p.show(text)
	}
	return n, err
}

// show replaces the text on the terminal.
func (p *progress) show(text string) { fmt.Fprintf(p.err, "\r\x1b[K%s", text) }

// end erases the text.
func (p *progress) end() {
	if !p.last.IsZero() {
		fmt.Fprint(p.err, "\r\x1b[K")
	}
}

// size writes a number of bytes.
func size(n float64) string {
	const kB, MB, GB = 1e3, 1e6, 1e9
	switch {
	case n >= GB:
		return fmt.Sprintf("%.2f GB", n/GB)
	case n >= MB:
		return fmt.Sprintf("%.1f MB", n/MB)
	}
	return fmt.Sprintf("%.0f kB", n/kB)
}

// isTerminal reports whether a stream is a terminal, or a device like one.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// sizeOf returns the length of a regular file, or 0.
func sizeOf(in io.Reader) int64 {
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return info.Size()
		}
	}
	return 0
}
