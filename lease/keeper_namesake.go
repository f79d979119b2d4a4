package lease

import (
	"context"

	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// mayLook reports whether it is time to look for a namesake, which costs one or two requests.
func (l *Lease) mayLook() bool {
	n, now := &l.known.namesake, machine.Now()
	if !l.o.seeksNamesake() || n.found && n.note == "" || l.away() != nil {
		return false
	}
	if n.pause == 0 {
		n.pause, n.next = l.o.Window, now.Add(l.o.Window)
	}
	if now.Before(n.next) {
		return false
	}
	n.pause = min(2*n.pause, maxPause*l.o.Window)
	n.next = now.Add(n.pause)
	return true
}

// lookForNamesake looks for a namesake, for no longer than a renewal takes.
func (l *Lease) lookForNamesake(ctx context.Context) error {
	patient, cancel := context.WithTimeout(ctx, l.o.trip())
	defer cancel()
	process, err := l.known.look(l.line(patient), l.o.Owner)
	if process != "" {
		l.log.namesake(l, process)
	}
	return err
}
