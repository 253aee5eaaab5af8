package stores

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// redisServer is a Redis with an append-only file.
type redisServer struct {
	*redistest.Server
	sizes map[string]int64 // of the files of the latest copy, by name; nil: there is none
}

func launchRedis() (Server, error) { return LaunchRedis(0) }

// LaunchRedis starts a Redis whose wall clock gains so many seconds per second, as of redistest.WithClockRate.
func LaunchRedis(gain float64) (Server, error) {
	// Each write reaches the file before its reply is sent, and a file outlives the process that
	// wrote it: what was answered is kept. Only with appendfsync everysec Redis may put a write off.
	s, err := redistest.Launch(redistest.WithAppendOnly(), redistest.WithArgs("--appendfsync", "no"), redistest.WithClockRate(gain))
	if err != nil {
		return nil, err
	}
	return &redisServer{Server: s}, nil
}

// folder has the append-only files; up to Redis 6 there is a single one instead. copied has the latest copy.
func (s *redisServer) folder() string { return filepath.Join(s.Dir(), "appendonlydir") }
func (s *redisServer) single() string { return filepath.Join(s.Dir(), appendOnly) }
func (s *redisServer) copied() string { return filepath.Join(s.Dir(), "copied") }

const appendOnly = "appendonly.aof"

// files returns the paths of the append-only files.
func (s *redisServer) files() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(s.folder(), "*"))
	if len(files) == 0 {
		files = []string{s.single()}
	}
	return files, err
}

// Empty implements Emptier.
func (s *redisServer) Empty() error {
	s.Kill()
	return errors.Join(os.RemoveAll(s.folder()), os.RemoveAll(s.single()))
}

// Copy implements Copier. The files only grow, or are replaced by others, so their present sizes and a second link to each are a
// copy.
func (s *redisServer) Copy() error {
	const tries = 10 // the server may rewrite its files meanwhile
	var err error
	for range tries {
		if err = s.link(); err == nil {
			return nil
		}
	}
	return err
}

func (s *redisServer) link() error {
	s.sizes = nil
	if err := errors.Join(os.RemoveAll(s.copied()), os.Mkdir(s.copied(), 0o755)); err != nil {
		return err
	}
	files, err := s.files()
	if err != nil {
		return err
	}
	sizes := map[string]int64{}
	for _, f := range files {
		name := filepath.Base(f)
		to := filepath.Join(s.copied(), name)
		if err := os.Link(f, to); err != nil {
			return err
		}
		info, err := os.Stat(to)
		if err != nil {
			return err
		}
		sizes[name] = info.Size()
	}
	if _, single := sizes[appendOnly]; !single {
		if err := s.complete(); err != nil {
			return err
		}
	}
	s.sizes = sizes
	return nil
}

// complete returns an error if the copy lacks a file that its manifest names.
func (s *redisServer) complete() error {
	manifest, err := os.Open(filepath.Join(s.copied(), appendOnly+".manifest"))
	if err != nil {
		return err
	}
	defer manifest.Close()
	lines := bufio.NewScanner(manifest)
	for lines.Scan() { // file NAME seq N type T
		if words := strings.Fields(lines.Text()); len(words) > 1 {
			if _, err := os.Stat(filepath.Join(s.copied(), words[1])); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

// Restore implements Copier.
func (s *redisServer) Restore() error {
	s.Kill()
	if s.sizes == nil {
		return fmt.Errorf("stores: there is no copy of %s", s.Addr())
	}
	for name, size := range s.sizes {
		if err := os.Truncate(filepath.Join(s.copied(), name), size); err != nil {
			return err
		}
	}
	_, single := s.sizes[appendOnly]
	s.sizes = nil
	if err := s.Empty(); err != nil {
		return err
	}
	if single {
		return os.Rename(filepath.Join(s.copied(), appendOnly), s.single())
	}
	return os.Rename(s.copied(), s.folder())
}
