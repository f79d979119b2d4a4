package lease

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// This file finds a namesake: a live lease of another process with the same Options.Owner. Each of
// the two logs it once.
//
// The entry of an owner names the worker ID that one of its leases took last. The other leases find
// that lease by this entry and, if its record changes between two looks, note themselves in the
// entry, where it finds them. A newcomer has its first look while it searches. With ReuseKeep it
// waits for the worker ID of its namesake, and sees its record change during the wait.

// namesake is a lease's knowledge of its namesake.
type namesake struct {
	mine    map[int]string  // by worker ID: the token that this lease drew last
	entry   string          // the version of the owner's entry that this lease knows
	suspect protocol.Record // the namesake's, as it was at the first look; zero if there is none
	found   bool            // the namesake is in this log
	note    string          // for the owner's entry, so that the namesake logs it too; or ""

	next  time.Time     // the time of the next look,
	pause time.Duration // and the pause since the previous look; 0 for a new suspect
}

// maxPause is the longest pause between two looks, in windows. The first one is a window.
const maxPause = 16

// seeksNamesake reports whether the lease has an owner that others should not have. With ReuseOnce
// the store keeps nothing for an owner.
func (o *Options) seeksNamesake() bool { return o.named && o.Reuse != ReuseOnce }

// look looks for a namesake, and returns it when it is found.
func (k *known) look(s book.Line, owner string) (process string, err error) {
	n := &k.namesake
	e, err := s.Get(book.OwnerKey(owner))
	if err != nil {
		return "", err
	}
	if n.found {
		return "", n.leaveNote(s, owner, e)
	}
	worker, _, ok := book.DecodeOwner(e)
	by := n.hears(e)
	switch {
	case by != "":
		return by, nil
	case n.suspect.Token != "":
		worker = n.suspect.Worker
	case !ok || e.Version == n.entry:
		return "", nil
	}
	r, err := book.GetRecord(s, worker)
	if err != nil {
		return "", err
	}
	return k.suspect(s, owner, e, r)
}

// hears returns a namesake that has noted itself in the owner's entry since the lease saved or read
// the entry.
func (n *namesake) hears(e Entry) (process string) {
	_, by, _ := book.DecodeOwner(e)
	if n.found || n.entry == "" || n.entry == e.Version {
		return ""
	}
	n.found = by != ""
	return by
}

// suspect compares r, a record that may be a namesake's, with the previous look. If it has changed,
// its holder lives, and suspect returns it, and leaves it a note. e is the owner's entry.
func (k *known) suspect(s book.Line, owner string, e Entry, r protocol.Record) (process string, err error) {
	n, now := &k.namesake, s.Read().Moment
	switch {
	case n.found:
	case r.State != StateHeld, r.Owner != owner, r.Token == n.mine[r.Worker], !r.Live(k.Idle(r, now)):
		n.suspect = protocol.Record{}
		if worker, _, _ := book.DecodeOwner(e); worker == r.Worker { // the entry leads to no namesake
			n.entry = e.Version
		}
	case r.Token != n.suspect.Token:
		k.Seen.Sees(book.RecordKey(r.Worker), r.Version, now.At, protocol.Healing(r.Layout.Unit))
		n.suspect, n.pause = r, 0
	case r.Version != n.suspect.Version:
		n.found, n.note = true, processText(hostname(), os.Getpid())
		return processText(r.Host, r.PID), n.leaveNote(s, owner, e)
	}
	return "", nil
}

// leaveNote notes this process in the owner's entry, unless another one is noted there.
func (n *namesake) leaveNote(s book.Line, owner string, e Entry) (err error) {
	worker, by, ok := book.DecodeOwner(e)
	if !ok {
		worker = n.suspect.Worker
	}
	if by == "" {
		_, err = s.Put(book.OwnerKey(owner), e.Version, []byte(strconv.Itoa(worker)+" "+n.note))
	}
	if err == nil {
		n.note = ""
	}
	return err
}

func processText(host string, pid int) string { return fmt.Sprintf("%s, pid %d", host, pid) }
