//go:build faults && unix

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	bwmarrin "github.com/bwmarrin/snowflake"
	google "github.com/google/uuid"
	"github.com/muyo/sno"
	"github.com/oklog/ulid/v2"
	"github.com/rs/xid"
	sonyflake "github.com/sony/sonyflake/v2"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// peer is a library with its default settings and worker ID 1, if it has worker IDs.
type peer struct {
	name string
	open func(dir string) (next, error)
	end  string // the end of its time bits, if the clock here can be set so far

	leased bool
}

// next returns an ID in hexadecimal, in a form with the order of the IDs.
type next func() (string, error)

func signed(id int64) string {
	if id < 0 {
		return fmt.Sprintf("negative %d", id)
	}
	return fmt.Sprintf("%016x", id)
}

var peers = []peer{
	{"this library", func(string) (next, error) {
		return ours(snowflake.New(1, nil))
	}, "2095-09-07T15:47:35.552Z", false},
	{"this library, leased", func(dir string) (next, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		l, err := lease.Acquire(ctx, lease.File(filepath.Join(dir, "ids")), &lease.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			return nil, err
		}
		return ours(snowflake.NewLeased(l, nil))
	}, "2095-09-07T15:47:35.552Z", true},
	{"bwmarrin", func(string) (next, error) {
		node, err := bwmarrin.NewNode(1)
		return func() (string, error) { return signed(node.Generate().Int64()), nil }, err
	}, "2080-07-10T17:30:30.208Z", false},
	{"sonyflake v2", func(string) (next, error) {
		s, err := sonyflake.New(sonyflake.Settings{MachineID: func() (int, error) { return 1, nil }})
		return func() (string, error) {
			id, err := s.NextID()
			return signed(id), err
		}, err
	}, "2199-03-19T03:28:58.88Z", false},
	{"sno", func(string) (next, error) {
		g, err := sno.NewGenerator(&sno.GeneratorSnapshot{Partition: sno.Partition{0, 1}}, nil)
		return func() (string, error) { id := g.New(0); return fmt.Sprintf("%x", id[:]), nil }, err
	}, "2079-09-07T15:47:35.552Z", false},
	{"xid", func(string) (next, error) {
		return func() (string, error) { id := xid.New(); return fmt.Sprintf("%x", id[:]), nil }, nil
	}, "2106-02-07T06:28:16Z", false},
	{"ulid", func(string) (next, error) {
		return func() (string, error) { id := ulid.Make(); return fmt.Sprintf("%x", id[:]), nil }, nil
	}, "", false},
	{"UUIDv7 (google)", func(string) (next, error) {
		return func() (string, error) { id, err := google.NewV7(); return fmt.Sprintf("%x", id[:]), err }, nil
	}, "2262-04-11T23:47:17Z", false}, // then time.Time.UnixNano overflows; the 48 bits last until 10889
}

func ours(g *snowflake.Generator, err error) (next, error) {
	return func() (string, error) {
		id, err := g.NextID()
		return signed(int64(id)), err
	}, err
}
