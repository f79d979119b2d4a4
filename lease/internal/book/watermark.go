package book

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

const WatermarkKey = "watermark"

// GetWatermark returns the entry of the watermark.
func GetWatermark(s Line) (m protocol.Watermark, err error) {
	e, err := s.Get(WatermarkKey)
	if err == nil && e.Version != "" {
		var is struct{ Proposed, Published *time.Time }
		if m.Bad = json.Unmarshal(e.Value, &is) != nil || is.Proposed == nil || is.Published == nil; !m.Bad {
			m.Proposed, m.Published = *is.Proposed, *is.Published
		}
	}
	if errors.Is(err, driver.ErrBadRecord) {
		m.Bad, err = true, nil
	}
	if m.Bad {
		m = protocol.Watermark{Bad: true}
	}
	m.Version = e.Version
	return m, err
}

// PutWatermark saves m in place of the entry with m's version. Of two processes that do so, the
// second gets the watermark of the first.
func PutWatermark(s Line, m protocol.Watermark) (protocol.Watermark, error) {
	value, err := json.Marshal(m)
	if err != nil {
		return m, err
	}
	e, err := s.Put(WatermarkKey, m.Version, value)
	if errors.Is(err, driver.ErrConflict) {
		return GetWatermark(s)
	}
	m.Version, m.Bad = e.Version, false
	return m, err
}
