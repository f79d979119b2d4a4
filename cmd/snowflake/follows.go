package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/jsontime"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

func followsCommand(s *command.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:       "follows OLD NEW",
		Short:     command.Short("follows"),
		Args:      both("follows", "OLD and NEW"),
		ValidArgs: texts.LayoutNames(),
	}
	lastText := c.Flags().String("last", "", "the greatest `ID` of the old layout")
	until := c.Flags().String("until", "", "the `time` up to which the old layout is used")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if c.Flags().Changed("last") && c.Flags().Changed("until") {
			return errors.New("name either --last or --until, not both")
		}
		var pair [2]snowflake.Layout
		for i, arg := range args {
			var err error
			if pair[i], err = texts.Layout(arg); err != nil {
				return err
			}
		}
		old, l := pair[0], pair[1]
		last, err := lastID(old, *lastText, *until, s.Now())
		if err != nil {
			return err
		}
		v, err := follows(old, l, last, s.Now())
		if err != nil {
			return err
		}
		if s.JSON {
			if err := s.WriteJSON(v); err != nil {
				return err
			}
		} else {
			answer := "no: an ID of NEW can equal an ID of OLD, or be less"
			if v.Follows {
				answer = "yes: every ID of NEW is greater than every ID of OLD"
			}
			fmt.Fprintln(s.Out, answer+"\n  "+strings.Join(v.Proof, "\n  "))
		}
		if !v.Follows {
			return command.ErrSaid
		}
		return nil
	}
	return c
}

// verdict is the answer of follows as JSON.
type verdict struct {
	Follows bool           `json:"follows"`
	Last    stampedID      `json:"last"`            // of the old layout
	First   stampedID      `json:"first"`           // of the new layout
	From    *jsontime.Time `json:"from,omitempty"`  // the first time at which the new layout follows
	Epoch   *jsontime.Time `json:"epoch,omitempty"` // the epoch with which it follows at once
	Proof   []string       `json:"proof"`
}

// stampedID is an ID and its time.
type stampedID struct {
	ID   snowflake.ID  `json:"id"`
	Time jsontime.Time `json:"time"`
}

func stamp(id snowflake.ID, t time.Time) stampedID { return stampedID{id, jsontime.Time{Time: t}} }

// lastID returns the last ID of a layout: the ID in text or, if text is empty, the greatest ID that
// the layout can issue before until. An empty until is now.
func lastID(old snowflake.Layout, text, until string, now time.Time) (snowflake.ID, error) {
	if text != "" {
		all, err := texts.IDs([]string{text})
		if err != nil {
			return 0, err
		}
		id, _, _, err := likeliest(old, all, now)
		return id, err
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
	if epoch := old.Epoch.Time(); !t.After(epoch) {
		return 0, fmt.Errorf("the old layout has no ID before %s: its epoch is %s", texts.Moment(t), texts.Moment(epoch))
	}
	first, err := old.Encode(snowflake.Parts{Time: t.Add(-1)})
	return first | 1<<tickShift(old) - 1, err
}

// tickShift returns the number of bits below the time.
func tickShift(l snowflake.Layout) uint8 {
	return l.ClockSeqBits + l.DatacenterBits + l.WorkerBits + l.SequenceBits
}

// follows decides whether l follows old after the ID last, and gives the reasons.
func follows(old, l snowflake.Layout, last snowflake.ID, now time.Time) (verdict, error) {
	err := l.Follows(old, last)
	var overlap *snowflake.OverlapError
	if err != nil && !errors.As(err, &overlap) {
		return verdict{}, err
	}
	stamped := old.Decode(last).Time
	begin := stamped.Add(old.Unit)
	v := verdict{Follows: err == nil, Last: stamp(last, stamped)}
	say := func(format string, args ...any) { v.Proof = append(v.Proof, fmt.Sprintf(format, args...)) }
	if err != nil {
		v.First = stamp(overlap.First, l.Decode(overlap.First).Time)
		at := slices.MaxFunc([]time.Time{v.First.Time.Time, begin}, time.Time.Compare)
		say("OLD has issued %d, stamped %s.", last, texts.Moment(stamped))
		say("NEW can issue %d, at %s, which is not greater.", v.First.ID, texts.Moment(at))
		if v.From, v.Epoch = remedies(l, last, begin, now); v.From != nil {
			say("NEW follows if it begins at %s or later.", texts.Moment(v.From.Time))
		}
		if v.Epoch != nil {
			say("With its epoch at %s (%d) or earlier, NEW follows at once.", texts.Moment(v.Epoch.Time), v.Epoch.UnixMilli())
		}
		return v, nil
	}
	first, err := l.Encode(snowflake.Parts{Time: begin})
	if err != nil {
		return verdict{}, err
	}
	v.First = stamp(first, l.Decode(first).Time)
	say("The last ID of OLD is %d. It is stamped %s; its tick ends at %s.", last, texts.Moment(stamped), texts.Moment(begin))
	say("The tick of NEW at that time begins with %d, which is greater.", first)
	say("Each later tick of NEW begins with a greater ID.")
	return v, nil
}

// remedies returns the first time at which l follows last, and the epoch with which l follows last
// at begin. Each is nil if there is none.
func remedies(l snowflake.Layout, last snowflake.ID, begin, now time.Time) (from, epoch *jsontime.Time) {
	shift := tickShift(l)
	next := (last>>shift + 1) << shift // the first ID of the tick after last's
	if next <= 0 || l.Check(next) != nil {
		return nil, nil
	}
	from = &jsontime.Time{Time: l.Decode(next).Time}
	// Not in a Duration, which holds only 292 years.
	l.Epoch -= snowflake.EpochAt(from.Add(time.Millisecond-1)) - snowflake.EpochAt(begin)
	if end := l.Expires(); end.After(begin) && end.After(now) {
		epoch = &jsontime.Time{Time: l.Epoch.Time()}
	}
	return from, epoch
}
