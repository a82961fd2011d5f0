package latchkey_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// pay, reindex and the like stand for the work that a lock protects.
func pay(ctx context.Context, token int64) error { return ctx.Err() }

func reindex(ctx context.Context, shard string, token int64) error { return ctx.Err() }

func Example() {
	ctx := context.Background()
	client, err := latchkey.New(latchkey.Config{}) // LATCHKEY_SERVER, or http://127.0.0.1:8080
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lock, err := client.Lock(ctx, "billing/invoices", latchkey.LockOptions{Wait: time.Minute, Holder: "worker-7"})
	if err != nil {
		log.Fatal(err)
	}
	workErr := pay(lock.Context(ctx), lock.Token()) // the context ends when the lock is lost
	if _, err := lock.Release(); err != nil {       // and this says so
		workErr = errors.Join(workErr, err)
	}
	fmt.Println(workErr)
	// Output: <nil>
}

func ExampleConfig() {
	client, err := latchkey.New(latchkey.Config{
		Servers: []string{"https://locks.example.com"},
		TokenSource: func(context.Context) (string, error) { // asked first, and again when a token is refused
			text, err := os.ReadFile("/run/secrets/latchkey")
			return strings.TrimSpace(string(text)), err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	client.Close()
	// Output:
}

func ExampleClient_Lock() {
	ctx := context.Background()
	client, err := latchkey.New(latchkey.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	other, err := client.Lock(ctx, "nightly", latchkey.LockOptions{Holder: "web-3"})
	if err != nil {
		log.Fatal(err)
	}
	defer other.Release()

	lock, err := client.Lock(ctx, "nightly", latchkey.LockOptions{})
	var taken *latchkey.NotAcquiredError
	var unreachable *latchkey.UnreachableError
	switch {
	case err == nil:
		defer lock.Release()
	case errors.As(err, &taken):
		fmt.Println("taken by", taken.Holder.Holder)
	case errors.As(err, &unreachable):
		fmt.Println("no server answers:", unreachable)
	default:
		fmt.Println("refused:", err) // an *latchkey.Error; errors.Is(err, latchkey.ErrInvalidRequest) and so on
	}
	// Output: taken by web-3
}

func ExampleLock_Context() {
	client, err := latchkey.New(latchkey.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lock, err := client.Lock(context.Background(), "leader", latchkey.LockOptions{TTL: 6 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release()
	if err := client.Release(context.Background(), lock.ID()); err != nil { // whoever knows the id can
		log.Fatal(err)
	}

	ctx := lock.Context(context.Background())
	<-ctx.Done()
	var lost *latchkey.LostError
	var uncertain *latchkey.UncertainError
	switch cause := context.Cause(ctx); {
	case errors.As(cause, &lost):
		fmt.Println("the service says that it is over: another may hold it")
	case errors.As(cause, &uncertain):
		fmt.Println("it could not be renewed: nobody else holds it for another", lock.Remaining())
	case errors.Is(cause, latchkey.ErrReleased):
		fmt.Println("it was released here")
	}
	// Output: the service says that it is over: another may hold it
}

func ExampleClient_Lease() {
	ctx := context.Background()
	client, err := latchkey.New(latchkey.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lease, err := client.Lease(ctx, latchkey.LeaseOptions{TTL: 15 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release() // frees every lock on it
	for _, shard := range []string{"shard/1", "shard/2"} {
		lock, err := lease.Lock(ctx, shard, latchkey.LockOptions{Wait: time.Minute})
		if err != nil {
			log.Fatal(err)
		}
		if err := reindex(lock.Context(ctx), shard, lock.Token()); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(lease.Check())
	// Output: <nil>
}

func ExampleFenceGuard() {
	var guard latchkey.FenceGuard
	fmt.Println(guard.Accept("billing/invoices", 34))
	fmt.Println(guard.Accept("billing/invoices", 33))
	// Output:
	// <nil>
	// latchkey: token 33 for "billing/invoices" is stale: 34 was accepted before
}

// markPaid is run by a test, on a database.
func markPaid(ctx context.Context, db *sql.DB, token int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var guard latchkey.SQLFenceGuard
	if err := guard.Accept(ctx, tx, "billing/invoices", token); err != nil {
		return err // a *latchkey.StaleTokenError: the lock is another's by now
	}
	if _, err := tx.ExecContext(ctx, "UPDATE invoices SET paid = 1"); err != nil {
		return err
	}
	return tx.Commit()
}
