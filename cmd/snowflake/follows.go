package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/jsontime"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

func followsCommand(s *streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "follows OLD NEW",
		Short: "Say whether a table may go on with IDs of another layout",
		Long: `Decides whether a table that has IDs of the layout OLD may go on with IDs of the
layout NEW: whether every ID of NEW is greater than every ID of OLD, if NEW
begins after the tick of OLD's last ID has ended. The last ID is --last, the
greatest in the table. With --until, it is the greatest ID that OLD can issue
before that time. With neither, it is the greatest that OLD can issue by now.

Prints yes and the proof, or no and two IDs as proof. If the answer is no, it
says when NEW could begin, and with which epoch NEW could begin at once. The
exit status is 0 for yes and 1 for no. To change the epoch or the tick of a
layout, write NAME@EPOCH or NAME@EPOCH,TICK, such as 41/10/12@2020-01-01 or
bwmarrin@1577836800000,1ms.`,
		Args:      cobra.ExactArgs(2),
		ValidArgs: layoutNames(),
	}
	lastText := c.Flags().String("last", "", "the greatest `ID` of the old layout")
	until := c.Flags().String("until", "", "the `time` up to which the old layout is used")
	c.MarkFlagsMutuallyExclusive("last", "until")
	c.RunE = func(_ *cobra.Command, args []string) error {
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
	return c
}

// verdict is the answer of follows as JSON.
type verdict struct {
	Follows bool           `json:"follows"`
	Last    stampedID      `json:"last"`            // of the old layout
	First   stampedID      `json:"first"`           // of the new layout
	From    *jsontime.Time `json:"from,omitempty"`  // from this time on, the new layout follows
	Epoch   *jsontime.Time `json:"epoch,omitempty"` // with this epoch, it follows at once
	Proof   []string       `json:"proof"`
}

// stampedID is an ID and its time.
type stampedID struct {
	ID   snowflake.ID  `json:"id"`
	Time jsontime.Time `json:"time"`
}

func stamp(id snowflake.ID, t time.Time) stampedID { return stampedID{id, jsontime.Time{Time: t}} }

// lastID returns the last ID of a layout: the ID that text has or, if text is empty,
// the greatest ID that can have been issued before until.
func lastID(old snowflake.Layout, text, until string, now time.Time) (snowflake.ID, error) {
	if text != "" {
		return parseID(old, text)
	}
	t := now
	if until != "" {
		var err error
		if t, err = texts.Time(until); err != nil {
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

// follows decides, and writes the reasons.
func follows(old, l snowflake.Layout, last snowflake.ID) (verdict, error) {
	err := l.Follows(old, last)
	var overlap *snowflake.OverlapError
	if err != nil && !errors.As(err, &overlap) {
		return verdict{}, err
	}
	stamped := old.Decode(last).Time
	v := verdict{Follows: err == nil, Last: stamp(last, stamped)}
	begin := stamped.Add(old.Unit)
	if err != nil {
		v.First = stamp(overlap.First, l.Decode(overlap.First).Time)
		v.Proof = []string{
			fmt.Sprintf("OLD has issued %d, stamped %s.", last, moment(stamped)),
			fmt.Sprintf("NEW can issue %d, at %s, which is not greater.", v.First.ID, moment(later(v.First.Time.Time, begin))),
		}
		v.remedies(l, last, begin)
		return v, nil
	}
	first, err := l.Encode(snowflake.Parts{Time: begin})
	if err != nil {
		return verdict{}, err
	}
	v.First = stamp(first, l.Decode(first).Time)
	v.Proof = []string{
		fmt.Sprintf("The last ID of OLD is %d. It is stamped %s; its tick ends at %s.", last, moment(stamped), moment(begin)),
		fmt.Sprintf("The tick of NEW at that time begins with %d, which is greater.", first),
		"Each later tick of NEW begins with a greater ID.",
	}
	return v, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// remedies finds the time from which l follows last, and the epoch with which l
// follows last from begin on.
func (v *verdict) remedies(l snowflake.Layout, last snowflake.ID, begin time.Time) {
	shift := l.ClockSeqBits + l.DatacenterBits + l.WorkerBits + l.SequenceBits
	next := (last>>shift + 1) << shift // the first ID of the first tick whose IDs are all greater than last
	if next <= 0 || l.Check(next) != nil {
		return
	}
	from := l.Decode(next).Time
	v.From = &jsontime.Time{Time: from}
	l.Epoch -= millisBetween(begin, from)
	if l.Expires().After(begin) {
		v.Epoch = &jsontime.Time{Time: l.Epoch.Time()}
	}
}

// millisBetween returns how many milliseconds b is later than a, rounded up. A
// Duration would hold 292 years only.
func millisBetween(a, b time.Time) snowflake.Epoch {
	nanos := b.Nanosecond() - a.Nanosecond() + int(time.Millisecond) - 1 + int(time.Second)
	return snowflake.Epoch((b.Unix()-a.Unix()-1)*1000 + int64(nanos/int(time.Millisecond)))
}

func writeVerdict(s *streams, v verdict) {
	if v.Follows {
		fmt.Fprintln(s.out, s.paint(green, "yes")+": every ID of NEW is greater than every ID of OLD")
	} else {
		fmt.Fprintln(s.out, s.paint(red, "no")+": an ID of NEW can equal an ID of OLD, or be less")
	}
	for _, line := range v.Proof {
		fmt.Fprintln(s.out, " ", line)
	}
	if v.From != nil {
		fmt.Fprintf(s.out, "  NEW follows if it begins at %s or later.\n", moment(v.From.Time))
	}
	if v.Epoch != nil {
		fmt.Fprintf(s.out, "  With its epoch at %s (%d) or earlier, NEW follows at once.\n", moment(v.Epoch.Time), v.Epoch.UnixMilli())
	}
}
