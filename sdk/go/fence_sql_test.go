package latchkey_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/mattn/go-sqlite3"

	latchkey "github.com/latchkey/latchkey/sdk/go"
)

// openSQLite opens a database with what the guard needs and an account that it protects.
func openSQLite(t *testing.T, guard latchkey.SQLFenceGuard) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", filepath.Join(t.TempDir(), "test.db")+"?_txlock=immediate&_busy_timeout=20000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	schema, err := guard.Schema()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := db.Exec(schema); err != nil {
			if strings.Contains(err.Error(), "CGO_ENABLED=0") && os.Getenv("CI") == "" {
				t.Skipf("the driver of SQLite needs cgo: %v", err)
			}
			t.Fatal(err)
		}
	}
	if _, err := db.Exec("CREATE TABLE account (written_with bigint NOT NULL); INSERT INTO account VALUES (0)"); err != nil {
		t.Fatal(err)
	}
	return db
}

// write is a transaction that the lock named a protects.
func write(db *sql.DB, guard latchkey.SQLFenceGuard, token int64) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := guard.Accept(context.Background(), tx, "a", token); err != nil {
		return err
	}
	if _, err := tx.Exec("UPDATE account SET written_with = $1", token); err != nil {
		return err
	}
	return tx.Commit()
}

func writtenWith(t *testing.T, db *sql.DB) (token int64) {
	t.Helper()
	if err := db.QueryRow("SELECT written_with FROM account").Scan(&token); err != nil {
		t.Fatal(err)
	}
	return token
}

func TestSQLFenceGuardOnSQLite(t *testing.T) {
	t.Parallel()
	for name, guard := range map[string]latchkey.SQLFenceGuard{"the default table": {}, "another table": {Table: "main.accepted"}} {
		t.Run(name, func(t *testing.T) {
			db := openSQLite(t, guard)
			const highest = 1<<53 - 1
			for _, step := range []struct {
				token, refusedFor, written int64
			}{
				{5, 0, 5}, {5, 0, 5}, {4, 5, 5}, {6, 0, 6}, {5, 6, 6}, {highest, 0, highest}, {highest - 1, highest, highest},
			} {
				err := write(db, guard, step.token)
				if step.refusedFor == 0 && err != nil {
					t.Errorf("token %d: %v", step.token, err)
				}
				if step.refusedFor != 0 {
					if stale := as[*latchkey.StaleTokenError](t, err); stale.Highest != step.refusedFor || stale.Token != step.token {
						t.Errorf("token %d: %v, want it refused for %d", step.token, err, step.refusedFor)
					}
				}
				if got := writtenWith(t, db); got != step.written {
					t.Errorf("after token %d it is written with %d, want %d", step.token, got, step.written)
				}
			}
		})
	}
}

func TestSQLFenceGuardForgetsWhatIsRolledBack(t *testing.T) {
	t.Parallel()
	var guard latchkey.SQLFenceGuard
	db := openSQLite(t, guard)
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Accept(t.Context(), tx, "a", 9); err != nil {
		t.Fatal(err)
	}
	tx.Rollback()
	if err := write(db, guard, 8); err != nil {
		t.Errorf("8 is refused, though 9 was rolled back: %v", err)
	}
}

func TestSQLFenceGuardAcceptsInOneOrder(t *testing.T) {
	t.Parallel()
	var guard latchkey.SQLFenceGuard
	db := openSQLite(t, guard)
	var all sync.WaitGroup
	const tokens = 40
	for token := int64(1); token <= tokens; token++ {
		all.Go(func() {
			stale := (*latchkey.StaleTokenError)(nil)
			if err := write(db, guard, token); err != nil && !errors.As(err, &stale) {
				t.Errorf("token %d: %v", token, err)
			}
		})
	}
	all.Wait()
	if got := writtenWith(t, db); got != tokens {
		t.Errorf("of %d tokens the last write is that of %d", tokens, got)
	}
}

func TestSQLFenceGuardRefusesWhatIsNoTable(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"a b", "a;b", "a.b.c", `"a"`, "1a", "."} {
		guard := latchkey.SQLFenceGuard{Table: table}
		if _, err := guard.Schema(); err == nil {
			t.Errorf("%q is accepted as a table", table)
		}
		if err := guard.Accept(t.Context(), nil, "a", 1); err == nil {
			t.Errorf("%q is accepted as a table", table)
		}
	}
	if err := (latchkey.SQLFenceGuard{}).Accept(t.Context(), nil, "a", 0); err == nil {
		t.Error("0 is accepted as a token")
	}
}

func TestSQLFenceGuardOfTheExample(t *testing.T) {
	t.Parallel()
	db := openSQLite(t, latchkey.SQLFenceGuard{})
	if _, err := db.Exec("CREATE TABLE invoices (paid integer NOT NULL); INSERT INTO invoices VALUES (0)"); err != nil {
		t.Fatal(err)
	}
	if err := markPaid(t.Context(), db, 2); err != nil {
		t.Error(err)
	}
	var paid int
	if err := db.QueryRow("SELECT paid FROM invoices").Scan(&paid); err != nil || paid != 1 {
		t.Errorf("paid: %d, %v", paid, err)
	}
	as[*latchkey.StaleTokenError](t, markPaid(t.Context(), db, 1))
}
