package main

import (
	"io"
	"log/slog"
)

// logFlags say how the program tells what happens.
type logFlags struct {
	LogFormat string `default:"text" placeholder:"text|json" group:"log" help:"How log lines are written to standard error: text or json (default: ${default})."`
	LogLevel  string `default:"info" placeholder:"LEVEL" group:"log" help:"What is logged: debug, info, warn or error, each with all that is graver (default: ${default}). At info every request is a line."`
}

func (f *logFlags) check(bad *faults) {
	if f.LogFormat != "text" && f.LogFormat != "json" {
		bad.add("log-format", "must be text or json, not %q", f.LogFormat)
	}
	if _, ok := levels[f.LogLevel]; !ok {
		bad.add("log-level", "must be debug, info, warn or error, not %q", f.LogLevel)
	}
}

var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

// logger is of flags that have been checked.
func (f *logFlags) logger(to io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: levels[f.LogLevel]}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(to, opts))
	}
	return slog.New(slog.NewTextHandler(to, opts))
}
