package bench

import (
	"log/slog"
	"os"
	"testing"
)

// TestMain drops the warnings about second generators with the same worker ID: each round makes
// some.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}
