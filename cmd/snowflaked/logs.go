package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"

	"github.com/seed-5394e6b1/snowflake/internal/cause"
)

// setLogger makes l the default logger and the logger of the stores' drivers, which would otherwise
// write to standard error in other formats. Their errors are also in the lease's log lines.
func setLogger(l *slog.Logger) {
	slog.SetDefault(l)
	d := &driver{log: l, said: map[string]bool{}}
	_ = mysql.SetLogger(d) // it fails for nil
	redis.SetLogger(d)
	klog.SetOutput(d)
	klog.LogToStderr(false)
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, d))
}

// driver logs the messages of the stores' drivers, each once. Messages that differ only in numbers
// count as one.
type driver struct {
	log *slog.Logger

	mu   sync.Mutex
	said map[string]bool
}

// mostSaid bounds the messages of drivers in the log.
const mostSaid = 100

func (d *driver) Print(v ...any) {
	text := strings.Join(strings.Fields(fmt.Sprint(v...)), " ")
	kind := cause.Kind(text)
	d.mu.Lock()
	first := !d.said[kind] && len(d.said) < mostSaid
	if first {
		d.said[kind] = true
	}
	d.mu.Unlock()
	if first {
		d.log.Debug("the driver's own message", "text", text)
	}
}

func (d *driver) Printf(_ context.Context, format string, v ...any) {
	d.Print(fmt.Sprintf(format, v...))
}

func (d *driver) Write(line []byte) (int, error) {
	d.Print(string(line))
	return len(line), nil
}
