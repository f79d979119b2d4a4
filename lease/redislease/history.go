package redislease

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// A member of a history is <from> <id> <to> <holding>. The first three parts have fixed
// lengths, and the texts of instants sort as the instants do.

func sortable(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }

// holdingID returns the beginning of a member, different for each From, ClockSeq and Token.
func holdingID(h lease.Holding) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", h.ClockSeq, h.Token))
	return sortable(h.From) + " " + hex.EncodeToString(sum[:16])
}

// beforeHolding is the length of a member without its holding.
const beforeHolding = 30 + 1 + 32 + 1 + 30 + 1

// History returns the earlier holders of a worker ID. Errors match [lease.ErrBadRecord] or
// the context's error, or are the client's.
func (s *Store) History(ctx context.Context, worker int) ([]lease.Holding, error) {
	key := s.key
	key.Name = s.historyOf(worker)
	members, err := s.run(ctx, historyScript, []string{key.Name})
	if err != nil {
		return nil, err
	}
	kept := make([]lease.Holding, len(members))
	for i, m := range members {
		if err := json.Unmarshal([]byte(m[min(len(m), beforeHolding):]), &kept[i]); err != nil {
			return nil, key.Wrap(fmt.Errorf("%w: %w", lease.ErrBadRecord, err))
		}
		if kept[i].Worker != worker {
			return nil, key.Wrap(fmt.Errorf("%w: it has a holding of worker %d", lease.ErrBadRecord, kept[i].Worker))
		}
	}
	return kept, nil
}
