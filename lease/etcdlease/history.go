package etcdlease

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-5394e6b1/snowflake/lease"
)

const (
	// maxHistory is how many holdings of a worker ID are kept, whatever their age: some 0.7
	// MB. So processes that come and go each second do not fill the cluster's quota.
	maxHistory = 2000

	// maxDeletes is how many ranges of keys one transaction deletes. etcd allows 128
	// operations.
	maxDeletes = 100

	// surplus is how many holdings over maxHistory one transaction drops at most.
	surplus = 8
)

// holdings returns the prefix of the keys of a worker ID's history.
func (s *Store) holdings(worker int) string { return s.key(history, worker) + "/" }

// holding returns the key of a holding. Keys sort by From.
func (s *Store) holding(worker int, h lease.Holding) string {
	token := fnv.New64a()
	token.Write([]byte(h.Token))
	return fmt.Sprintf("%s%s-%d-%016x", s.holdings(worker), stamp(h.From), h.ClockSeq, token.Sum64())
}

// stamp returns a text that sorts as t does.
func stamp(t time.Time) string { return t.UTC().Format("20060102T150405.000000000") }

// History returns the earlier holders of a worker ID.
func (s *Store) History(ctx context.Context, worker int) ([]lease.Holding, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	resp, err := s.txn(ctx).Then(s.getCreated(), s.countUsed(), clientv3.OpGet(s.holdings(worker), clientv3.WithPrefix())).Commit()
	if err == nil {
		err = s.intact(resp)
	}
	if err != nil {
		return nil, s.explain(err)
	}
	var kept []lease.Holding
	for _, kv := range found(resp, 2) {
		h, err := decodeHolding(kv)
		if err != nil {
			return nil, fmt.Errorf("etcdlease: key %s: %w", kv.Key, err)
		}
		kept = append(kept, h)
	}
	return kept, nil
}

func decodeHolding(kv *mvccpb.KeyValue) (h lease.Holding, err error) {
	if err := json.Unmarshal(kv.Value, &h); err != nil {
		return h, fmt.Errorf("%w: %w", lease.ErrBadRecord, err)
	}
	return h, nil
}

// SaveEnding is Save and, in the same transaction, adds ended to the history of r.Worker, and
// drops from this history each holding that ended before forget. If the history has more than
// 2,000 holdings, it also drops the oldest, and makes r.Forgotten later.
//
// It first reads the holdings to drop. The history of a worker ID changes only with its record,
// so these holdings are still there if the transaction finds the version that r replaces.
func (s *Store) SaveEnding(ctx context.Context, r lease.Record, ended lease.Holding, forget time.Time) (lease.Record, error) {
	if err := ctx.Err(); err != nil {
		return r, err
	}
	value, err := json.Marshal(ended)
	if err != nil {
		return r, fmt.Errorf("etcdlease: %w", err)
	}
	dir := s.holdings(r.Worker)
	resp, err := s.txn(ctx).Then(append(s.whyNot(r.Worker),
		clientv3.OpGet(dir, clientv3.WithRange(dir+stamp(forget))), // a holding that ended before forget also began before it
		clientv3.OpGet(dir, clientv3.WithPrefix(), clientv3.WithLimit(surplus)))...).Commit()
	if err != nil {
		return r, s.explain(err)
	}
	if kv := found(resp, 3); r.Version > 1 && (len(kv) == 0 || !bytes.HasPrefix(kv[0].Value, []byte(head(r.Worker, r.Version-1)))) {
		return r, s.explain(s.refusal(r, resp))
	}
	h := trimming{key: s.holding(r.Worker, ended), forget: forget}
	h.over = int(resp.Responses[5].GetResponseRange().Count) + 1 - s.keep
	// Both operations have read the first keys of the history.
	oldest := found(resp, 4)
	if first := found(resp, 5); len(first) > len(oldest) {
		oldest = first
	}
	put := clientv3.OpPut(h.key, string(value))
	if ended.To.Before(forget) {
		put = clientv3.OpDelete(h.key)
	}
	ops := append(h.drop(oldest), put)
	if h.dropped.After(r.Forgotten) {
		r.Forgotten = h.dropped
	}
	return s.save(ctx, r, ended.Token != r.Token, ops...)
}

// trimming makes room for a new holding.
type trimming struct {
	key     string
	forget  time.Time // holdings that ended before this instant are dropped
	over    int       // by how many there are too many
	dropped time.Time // the latest end of the holdings that are dropped because there are too many
}

// drop returns the operations that delete holdings from oldest, which is sorted. h.key,
// which the transaction puts, must not lie in a deleted range: etcd refuses that.
func (h *trimming) drop(oldest []*mvccpb.KeyValue) (ops []clientv3.Op) {
	kept := make([]*lease.Holding, len(oldest)) // nil: ended before forget, and is dropped
	for i, kv := range oldest {
		old, err := decodeHolding(kv)
		if err != nil || !old.To.Before(h.forget) { // a holding that cannot be read is kept, so that History reports it
			kept[i] = &old
		} else {
			h.over--
		}
	}
	var first, last string // of a range
	flush := func() {
		if first != "" && len(ops) < maxDeletes {
			ops = append(ops, clientv3.OpDelete(first, clientv3.WithRange(last+"\x00")))
		}
		first = ""
	}
	for i, kv := range oldest {
		key := string(kv.Key)
		if kept[i] != nil && h.over > 0 && key != h.key {
			h.over--
			if kept[i].To.After(h.dropped) {
				h.dropped = kept[i].To
			}
			kept[i] = nil
		}
		if last < h.key && h.key <= key {
			flush()
		}
		if kept[i] != nil || key == h.key {
			flush()
			continue
		}
		if first == "" {
			first = key
		}
		last = key
	}
	flush()
	return ops
}
