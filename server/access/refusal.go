package access

import "errors"

// maxCause is how much the log tells of why credentials were refused, in bytes.
const maxCause = 128

// refusal is why credentials are refused, in words of ours: those of a library can repeat what was sent, and at any length.
type refusal string

func (r refusal) Error() string { return string(r) }

const errUnreadable refusal = "the credentials cannot be read, or are signed by an algorithm that was not chosen"

// causeOf is the refusal in an error, and of any other error no more than that it is one.
func causeOf(err error) string {
	var own refusal
	if !errors.As(err, &own) {
		own = errUnreadable
	}
	return string(own[:min(len(own), maxCause)])
}
