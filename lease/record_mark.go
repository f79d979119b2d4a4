package lease

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

const watermarkKey = "watermark"

// getWatermark returns the entry of the watermark.
func getWatermark(s line) (m protocol.Watermark, err error) {
	e, err := s.get(watermarkKey)
	if err == nil && e.Version != "" {
		var is struct{ Proposed, Published *time.Time }
		if m.Bad = json.Unmarshal(e.Value, &is) != nil || is.Proposed == nil || is.Published == nil; !m.Bad {
			m.Proposed, m.Published = *is.Proposed, *is.Published
		}
	}
	if errors.Is(err, ErrBadRecord) {
		m.Bad, err = true, nil
	}
	if m.Bad {
		m = protocol.Watermark{Bad: true}
	}
	m.Version = e.Version
	return m, err
}

// putWatermark saves m in place of the entry with m's version. Of two processes that do so, the
// second gets the mark of the first.
func putWatermark(s line, m protocol.Watermark) (protocol.Watermark, error) {
	value, err := json.Marshal(m)
	if err != nil {
		return m, err
	}
	e, err := s.put(watermarkKey, m.Version, value)
	if errors.Is(err, ErrConflict) {
		return getWatermark(s)
	}
	m.Version, m.Bad = e.Version, false
	return m, err
}
