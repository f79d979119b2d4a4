package holding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// watermark has the JSON of the server's answer to GET /watermark.
type watermark struct {
	ID   snowflake.ID `json:"id"`
	Held *keeper      `json:"held,omitempty"`
}

// keeper is who keeps a watermark back.
type keeper struct {
	Worker int    `json:"worker"`
	Owner  string `json:"owner"`
	Host   string `json:"host"`
	PID    int    `json:"pid"`
	Behind string `json:"behind"` // as protobuf writes durations
	Why    string `json:"why"`
}

// WriteWatermark writes the watermark of a store. If a holder keeps the watermark back, JSON names the holder, and
// the error is the *lease.WatermarkError.
func WriteWatermark(ctx context.Context, out io.Writer, s lease.Store, asJSON bool) error {
	id, err := lease.Watermark(ctx, s)
	held := (*lease.WatermarkError)(nil)
	if err != nil && !errors.As(err, &held) {
		return err
	}
	if !asJSON {
		_, failed := fmt.Fprintln(out, id)
		return errors.Join(failed, err)
	}
	shown := watermark{ID: id}
	if held != nil {
		h, behind := held.Holder, held.Behind.Round(time.Millisecond)
		shown.Held = &keeper{h.Worker, h.Owner, h.Host, h.PID, fmt.Sprintf("%d.%03ds", behind/time.Second, behind%time.Second/time.Millisecond), held.Why}
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return errors.Join(e.Encode(shown), err)
}
