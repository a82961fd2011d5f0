package latchkey

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
)

const defaultFences = "fences"

// SQLFenceGuard is a [FenceGuard] that remembers in a table of the database that it protects: PostgreSQL, or SQLite 3.24 or
// later. Its zero value uses the table of [SQLFenceGuard.Schema].
type SQLFenceGuard struct {
	Table string // fences if empty; with a schema before it if there is one
}

// SQLQuerier runs statements: a [*sql.Tx] or a [*sql.Conn].
type SQLQuerier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Schema makes the table, if it is not there.
func (g SQLFenceGuard) Schema() (string, error) {
	table, err := g.table()
	return "CREATE TABLE IF NOT EXISTS " + table + " (name text PRIMARY KEY, token bigint NOT NULL)", err
}

// Accept remembers token, or returns a [*StaleTokenError]: roll back then. Call it first in every transaction that the lock
// protects. From then on until the transaction ends the row of this name is locked, so no other holder's writes come between.
func (g SQLFenceGuard) Accept(ctx context.Context, tx SQLQuerier, name string, token int64) error {
	table, err := g.table()
	if err != nil {
		return err
	}
	if err := checkToken(token); err != nil {
		return err
	}
	done, err := tx.ExecContext(ctx, "INSERT INTO "+table+" AS accepted (name, token) VALUES ($1, $2) "+
		"ON CONFLICT (name) DO UPDATE SET token = excluded.token WHERE accepted.token <= excluded.token", name, token)
	if err != nil {
		return fmt.Errorf("latchkey: accept a token: %w", err)
	}
	rows, err := done.RowsAffected()
	if err != nil {
		return fmt.Errorf("latchkey: accept a token: %w", err)
	}
	if rows > 0 {
		return nil
	}
	stale := &StaleTokenError{Name: name, Token: token}
	if err := tx.QueryRowContext(ctx, "SELECT token FROM "+table+" WHERE name = $1", name).Scan(&stale.Highest); err != nil {
		return fmt.Errorf("%w; the higher one could not be read: %w", stale, err)
	}
	return stale
}

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

func (g SQLFenceGuard) table() (string, error) {
	switch {
	case g.Table == "":
		return defaultFences, nil
	case !tableName.MatchString(g.Table):
		return "", fmt.Errorf("latchkey: %q is not the name of a table", g.Table)
	}
	return g.Table, nil
}
