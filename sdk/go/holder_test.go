package latchkey_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// holderEnv makes this binary a process that holds the lock named.
const holderEnv = "LATCHKEY_TEST_HOLDER"

// beHolder is this binary as a process that holds a lock. It says its token, and then for each line that it reads whether it
// holds the lock: "held", "uncertain", "lost", by what it is asked to look at.
func beHolder(name string) int {
	c, err := latchkey.New(latchkey.Config{})
	if err != nil {
		return fail(err)
	}
	lock, err := c.Lock(context.Background(), name, latchkey.LockOptions{TTL: 4 * time.Second})
	if err != nil {
		return fail(err)
	}
	work := lock.Context(context.Background())
	fmt.Println(lock.Token())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == "context" {
			err = work.Err()
			if err != nil {
				err = context.Cause(work)
			}
		} else {
			err = lock.Check()
		}
		uncertain, lost := (*latchkey.UncertainError)(nil), (*latchkey.LostError)(nil)
		switch {
		case err == nil:
			fmt.Println("held")
		case errors.As(err, &uncertain):
			fmt.Println("uncertain")
		case errors.As(err, &lost):
			fmt.Println("lost")
		}
	}
	return 0
}
