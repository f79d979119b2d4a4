package lease

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/times"
)

const watermarkKey = "watermark"

// mark is the entry of the watermark. Neither time falls.
type mark struct {
	Proposed  time.Time `json:"proposed"`  // who takes a worker ID or clock sequence begins here
	Published time.Time `json:"published"` // nothing before it is stamped any more

	version string
	bad     bool // the entry cannot be read
}

// lost reports whether the entry is not there, or cannot be read.
func (m mark) lost() bool { return m.version == "" || m.bad }

// publish returns what may be published if no holder stamps anything before low any more, and all
// others begin at m.Proposed.
func (m mark) publish(low time.Time) time.Time {
	return times.Later(m.Published, times.Earlier(m.Proposed, low))
}

func getMark(s line) (m mark, err error) {
	e, err := s.get(watermarkKey)
	if err == nil && e.Version != "" {
		var is struct{ Proposed, Published *time.Time }
		if m.bad = json.Unmarshal(e.Value, &is) != nil || is.Proposed == nil || is.Published == nil; !m.bad {
			m.Proposed, m.Published = *is.Proposed, *is.Published
		}
	}
	if errors.Is(err, ErrBadRecord) {
		m.bad, err = true, nil
	}
	if m.bad {
		m = mark{bad: true}
	}
	m.version = e.Version
	return m, err
}

// put saves m in place of the entry with m's version. Of two processes that do so, the second gets
// the mark of the first.
func (m mark) put(s line) (mark, error) {
	value, err := json.Marshal(m)
	if err != nil {
		return m, err
	}
	e, err := s.put(watermarkKey, m.version, value)
	if errors.Is(err, ErrConflict) {
		return getMark(s)
	}
	m.version, m.bad = e.Version, false
	return m, err
}
