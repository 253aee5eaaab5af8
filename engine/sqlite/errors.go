package sqlite

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/engine"
)

// Codes of SQLite, without their extension.
const (
	codeError    = 1
	codePerm     = 3
	codeBusy     = 5
	codeLocked   = 6
	codeReadOnly = 8
	codeCorrupt  = 11
	codeFull     = 13
	codeCantOpen = 14
	codeAuth     = 23
	codeNotADB   = 26
)

// code returns SQLite's code of an error. Drivers name it differently, but all print the text.
func code(err error) int {
	coded, ok := errors.AsType[interface {
		error
		Code() int
	}](err)
	if ok {
		return coded.Code() & 0xff
	}
	for text, c := range map[string]int{
		"database is locked":                   codeBusy,
		"database table is locked":             codeLocked,
		"attempt to write a readonly database": codeReadOnly,
		"unable to open database file":         codeCantOpen,
		"file is not a database":               codeNotADB,
		"database disk image is malformed":     codeCorrupt,
		"access permission denied":             codePerm,
		"authorization denied":                 codeAuth,
		"database or disk is full":             codeFull,
		"no such table":                        codeError,
	} {
		if strings.Contains(err.Error(), text) {
			return c
		}
	}
	return 0
}

// busy reports whether another connection has the lock, so that the transaction is to be repeated.
func busy(err error) bool {
	c := code(err)
	return c == codeBusy || c == codeLocked
}

// explained returns an error with what to do about it.
func explained(err error) error {
	if err == nil {
		return nil
	}
	advice := ""
	switch code(err) {
	case codeError:
		if !strings.Contains(err.Error(), "no such table: holdfast1_") {
			return err
		}
		advice = "the tables are missing: run sqlite.Migrate, or apply the statements that sqlite.Schema returns"
	case codePerm, codeAuth, codeReadOnly:
		advice = "this process must be allowed to write the database file, the files beside it with the endings -wal and -shm, and their folder"
	case codeCantOpen:
		advice = "the folder of the database file must exist, and this process must be allowed to write it"
	case codeNotADB, codeCorrupt:
		advice = "this is not an intact SQLite database; a file with locks alone can be deleted when no process uses it"
	case codeFull:
		return fmt.Errorf("make room on the disk of the database file, or raise its max_page_count: %w", err)
	default:
		return err
	}
	return fmt.Errorf("%w: %s (%w)", engine.ErrDenied, advice, err)
}
