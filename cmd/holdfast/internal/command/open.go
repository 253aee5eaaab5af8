package command

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// requestTimeout bounds one request to the store, for which a person or a script waits.
const requestTimeout = 3 * time.Second

// closeTimeout bounds the end of the program.
const closeTimeout = time.Second

// session is a Holdfast client with its connections.
type session struct {
	*holdfast.Client
	store *store.Store
	at    string // description of the store
}

// storeFlags are the flags that say how to connect, besides the URL.
type storeFlags struct {
	StoreFile     string `aliases:"redis-file" env:"HOLDFAST_STORE_FILE,HOLDFAST_REDIS_FILE" placeholder:"FILE" help:"File or pipe with the URL of the store, or with its password alone. Default: none."`
	CACert        string `name:"cacert" env:"HOLDFAST_CACERT" placeholder:"FILE" help:"CA certificates of the servers, with TLS (in a URL: ?cacert=FILE). Default: those of the system."`
	Cert          string `env:"HOLDFAST_CERT" placeholder:"FILE" help:"Client certificate, with TLS (?cert=FILE). Default: none."`
	Key           string `env:"HOLDFAST_KEY" placeholder:"FILE" help:"Key of the client certificate (?key=FILE). Default: none."`
	TLSServerName string `name:"tls-server-name" env:"HOLDFAST_TLS_SERVER_NAME" placeholder:"NAME" help:"Name in the certificates of the servers (?tls_server_name=NAME). Default: the host of the URL."`
	Insecure      bool   `env:"HOLDFAST_INSECURE" help:"Accept any certificate of a server (?insecure=true)."`
}

// open makes a client for the store of the command line. It does not connect.
func (e *env) open(opts ...holdfast.Option) (*session, error) {
	st, err := e.opener.Open(e.url)
	if err != nil {
		return nil, err
	}
	s := &session{store: st, at: st.String()}
	opts = append([]holdfast.Option{holdfast.WithPrefix(e.prefix)}, opts...)
	if e.history != 0 {
		opts = append(opts, holdfast.WithHistory(e.history))
	}
	if s.Client, err = holdfast.New(st.Engine(), opts...); err != nil {
		st.Close()
		return nil, err
	}
	return s, nil
}

// with calls use with a session and with a context that the first signal ends. It returns that signal, or else the error
// of use with its exit code.
func (e *env) with(use func(ctx context.Context, s *session) error, opts ...holdfast.Option) error {
	s, err := e.open(opts...)
	if err != nil {
		return err
	}
	defer s.close()
	if err = untilSignal(func(ctx context.Context) error { return use(ctx, s) }); err != nil {
		return s.explain(err)
	}
	return nil
}

// now returns the time of the store. It has a limit, so that it fails soon if the store
// does not answer.
func (s *session) now(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return s.Now(ctx)
}

// explain is the function explain, with the cause that the store reports.
func (s *session) explain(err error) *exitError {
	if unreachable(err) {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if cause := s.store.Cause(ctx, err.Error()); cause != "" {
			err = fmt.Errorf("%w: %s", holdfast.ErrUnavailable, cause)
		}
	}
	return explain(err, s.store)
}

// close releases the leases that are still held and disconnects. If the store has not
// confirmed a release by closeTimeout, the lease ends by its TTL.
func (s *session) close() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Client.Close() // the result of the verb is known already
		_ = s.store.Close()
	}()
	select {
	case <-done:
	case <-time.After(closeTimeout):
	}
}
