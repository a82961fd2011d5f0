package main

// fieldReport says what keeps a fault that others had from being had here: tests, or an issue that is open.
type fieldReport struct {
	guards string
	tests  []string
	open   string
}
