package store

import (
	"fmt"
	"unicode/utf8"
)

// Bounds of what a client may have kept. All are in bytes but MaxPairs.
const (
	MaxNameBytes     = 255
	MaxHolderBytes   = 255
	MaxPairs         = 16
	MaxMetadataBytes = 2048
	minKeyBytes      = 16
	maxKeyBytes      = 128
)

// checkName refuses a name that could not be told from another, or that could not be shown.
// Without a NUL in any name, the range of one name's claims can hold those of no other.
func checkName(name string) error {
	switch {
	case name == "" || len(name) > MaxNameBytes:
		return &InputError{"Name", fmt.Sprintf("must be 1 to %d bytes of UTF-8", MaxNameBytes)}
	case !utf8.ValidString(name):
		return &InputError{"Name", "must be valid UTF-8"}
	case hasControl(name):
		return &InputError{"Name", "must not contain control characters (U+0000 to U+001F, U+007F to U+009F)"}
	}
	return nil
}

func hasControl(s string) bool {
	for _, r := range s {
		if r < 0x20 || r >= 0x7f && r <= 0x9f {
			return true
		}
	}
	return false
}

func checkShown(holder string, metadata map[string]string) error {
	if len(holder) > MaxHolderBytes || !utf8.ValidString(holder) {
		return &InputError{"Holder", fmt.Sprintf("must be at most %d bytes of UTF-8", MaxHolderBytes)}
	}
	if len(metadata) > MaxPairs {
		return &InputError{"Metadata", fmt.Sprintf("must have at most %d pairs", MaxPairs)}
	}
	size := 0
	for k, v := range metadata {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return &InputError{"Metadata", "must be valid UTF-8"}
		}
		size += len(k) + len(v)
	}
	if size > MaxMetadataBytes {
		return &InputError{"Metadata", fmt.Sprintf("must be at most %d bytes, keys and values together", MaxMetadataBytes)}
	}
	return nil
}

func checkKey(key string) error {
	if len(key) < minKeyBytes || len(key) > maxKeyBytes {
		return &InputError{"Key", fmt.Sprintf("must be %d to %d printable characters", minKeyBytes, maxKeyBytes)}
	}
	for i := range len(key) {
		if key[i] < 0x20 || key[i] > 0x7e {
			return &InputError{"Key", fmt.Sprintf("must be %d to %d printable characters", minKeyBytes, maxKeyBytes)}
		}
	}
	return nil
}
