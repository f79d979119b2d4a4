package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"
)

// setLogger makes a logger the default, also of the stores' drivers, which would write lines of their own to standard
// error while a store is away.
func setLogger(l *slog.Logger) {
	slog.SetDefault(l)
	d := driver{l}
	_ = mysql.SetLogger(d) // it fails for nil
	redis.SetLogger(d)
	klog.SetSlogLogger(l)
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, slog.NewLogLogger(l.Handler(), slog.LevelWarn).Writer()))
}

// driver logs what a store's driver says.
type driver struct{ log *slog.Logger }

func (d driver) Print(v ...any) { d.log.Warn("a driver says", "text", fmt.Sprint(v...)) }

func (d driver) Printf(_ context.Context, format string, v ...any) {
	d.Print(fmt.Sprintf(format, v...))
}
