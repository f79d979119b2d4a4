package main

import (
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

var commandFollows = command{
	name:     "follows",
	synopsis: []string{"OLD NEW [-last ID | -until TIME]"},
	summary:  "say whether IDs of one layout may follow those of another",
	about: `Decides whether an ID of the layout NEW can ever equal or lie below an ID of OLD
that was issued before, if NEW begins once the tick of the last ID of OLD has
ended. The last ID is -last: the greatest in the table; or any that OLD could
issue before -until, which is now if neither is given.

Prints yes and the proof, or no and two IDs that show it. If it is no, it says
from when on NEW would follow, and with which epoch it would at once. The exit
status is 0 or 1. A layout with another epoch or tick is written NAME@EPOCH or
NAME@EPOCH,TICK, such as 41/10/12@2020-01-01 or bwmarrin@1577836800000,1ms.
`,
	setup: setupFollows,
}

// verdict is the answer of follows as JSON.
type verdict struct {
	Follows bool       `json:"follows"`
	Last    stampedID  `json:"last"`            // of the old layout
	First   stampedID  `json:"first"`           // of the new one
	From    *time.Time `json:"from,omitempty"`  // when the new layout would follow
	Epoch   *time.Time `json:"epoch,omitempty"` // with which it would follow at once
	Proof   []string   `json:"proof"`
}

// stampedID is an ID and its time.
type stampedID struct {
	ID   snowflake.ID `json:"id"`
	Time time.Time    `json:"time"`
}

func setupFollows(fs *flag.FlagSet) action {
	lastText := fs.String("last", "", "the greatest `ID` of the old layout")
	until := fs.String("until", "", "the `time` up to which the old layout is used")
	return func(s streams, args []string) error {
		switch {
		case len(args) != 2:
			return fmt.Errorf("follows takes two layouts, the old and the new one, got %d arguments", len(args))
		case *lastText != "" && *until != "":
			return errors.New("follows takes -last or -until, not both")
		}
		var pair [2]snowflake.Layout
		for i, arg := range args {
			var err error
			if pair[i], err = parseLayout(arg, func(*snowflake.Layout) {}); err != nil {
				return err
			}
		}
		old, l := pair[0], pair[1]
		last, err := lastID(old, *lastText, *until, time.Now())
		if err != nil {
			return err
		}
		v, err := follows(old, l, last)
		if err != nil {
			return err
		}
		if s.json {
			err = s.writeJSON(v)
		} else {
			writeVerdict(s, v)
		}
		if err == nil && !v.Follows {
			err = errSaid
		}
		return failed(err)
	}
}

// lastID returns the last ID of a layout: the one that is given, or the greatest
// that it can have issued before a time.
func lastID(old snowflake.Layout, text, until string, now time.Time) (snowflake.ID, error) {
	if text != "" {
		return parseID(old, text)
	}
	t := now
	if until != "" {
		var err error
		if t, err = parseTime(until); err != nil {
			return 0, err
		}
	}
	if end := old.Expires(); t.After(end) {
		t = end
	}
	epoch := old.Epoch.Time()
	if !t.After(epoch) {
		return 0, fmt.Errorf("the old layout has no ID before %s: its epoch is %s", moment(t), moment(epoch))
	}
	id, err := old.Encode(snowflake.Parts{
		Time:     t.Add(-1),
		ClockSeq: 1<<old.ClockSeqBits - 1, Datacenter: 1<<old.DatacenterBits - 1,
		Worker: 1<<old.WorkerBits - 1, Sequence: 1<<old.SequenceBits - 1,
	})
	return id, err
}

// follows decides, and puts the reasons in words.
func follows(old, l snowflake.Layout, last snowflake.ID) (verdict, error) {
	err := l.Follows(old, last)
	var overlap *snowflake.OverlapError
	if err != nil && !errors.As(err, &overlap) {
		return verdict{}, err
	}
	stamped := old.Decode(last).Time
	v := verdict{Follows: err == nil, Last: stampedID{last, stamped}}
	begin := stamped.Add(old.Unit)
	if err != nil {
		v.First = stampedID{overlap.First, l.Decode(overlap.First).Time}
		v.Proof = []string{
			fmt.Sprintf("OLD has issued %d, stamped %s.", last, moment(stamped)),
			fmt.Sprintf("NEW can stamp %d, at %s, which is not greater.", v.First.ID, moment(later(v.First.Time, begin))),
		}
		v.remedies(l, last, begin)
		return v, nil
	}
	first, err := l.Encode(snowflake.Parts{Time: begin})
	if err != nil {
		return verdict{}, err
	}
	v.First = stampedID{first, l.Decode(first).Time}
	v.Proof = []string{
		fmt.Sprintf("The last ID of OLD is %d. It is stamped %s; its tick ends at %s.", last, moment(stamped), moment(begin)),
		fmt.Sprintf("The tick of NEW at that time begins with %d, which is greater.", first),
		"Each later tick of NEW begins with a greater ID than the one before.",
	}
	return v, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// remedies says from when on l would follow last, and with which epoch it would
// from begin on.
func (v *verdict) remedies(l snowflake.Layout, last snowflake.ID, begin time.Time) {
	shift := l.ClockSeqBits + l.DatacenterBits + l.WorkerBits + l.SequenceBits
	next := (last>>shift + 1) << shift // the first ID of the first tick that is above last
	if next <= 0 || l.Check(next) != nil {
		return
	}
	from := l.Decode(next).Time
	v.From = &from
	epoch := l.Epoch.Time().Add(begin.Sub(from)).Truncate(time.Millisecond)
	l.Epoch = snowflake.EpochAt(epoch)
	if l.Expires().After(begin) {
		v.Epoch = &epoch
	}
}

func writeVerdict(s streams, v verdict) {
	if v.Follows {
		fmt.Fprintln(s.out, s.paint(green, "yes")+": no ID of NEW equals or lies below one of OLD")
	} else {
		fmt.Fprintln(s.out, s.paint(red, "no")+": an ID of NEW can equal or lie below one of OLD")
	}
	for _, line := range v.Proof {
		fmt.Fprintln(s.out, " ", line)
	}
	if v.From != nil {
		fmt.Fprintf(s.out, "  NEW follows if it begins at %s or later.\n", moment(*v.From))
	}
	if v.Epoch != nil {
		fmt.Fprintf(s.out, "  With its epoch at %s (%d) or earlier it follows at once.\n", moment(*v.Epoch), v.Epoch.UnixMilli())
	}
}
