package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
)

// passing reports whether an error may be of one member or of a moment. The outcome is unknown.
func passing(err error) bool {
	code := status.Code(err)
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		code = e.Code()
	}
	return code == codes.Unavailable || code == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)
}

// failure returns an error of the client as the contract has it.
func failure(err error) error {
	if err == nil {
		return nil
	}
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(t error) bool {
			// A watch returns its error as a text.
			return errors.Is(err, t) || strings.HasSuffix(err.Error(), " desc = "+t.Error())
		})
	}
	switch {
	case is(rpctypes.ErrPermissionDenied):
		// Rights are by key.
		return cas.OneOfMany(fmt.Errorf("%w: grant the user of etcd readwrite on the keys of the locks (etcdctl role grant-permission ROLE readwrite holdfast/ --prefix): %w", engine.ErrDenied, err))
	case is(rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrAuthFailed):
		return fmt.Errorf("%w: set Username and Password of the client to those of a user of etcd: %w", engine.ErrDenied, err)
	case is(rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyOps):
		return fmt.Errorf("%w: run etcd with --max-request-bytes and --max-txn-ops at least at their defaults (1572864 and 128): %w", engine.ErrDenied, err)
	case is(rpctypes.ErrNoSpace):
		return fmt.Errorf("%w: the database of etcd has reached its quota: compact and defragment it, then run etcdctl alarm disarm: %w", engine.ErrUnavailable, err)
	}
	return err
}
