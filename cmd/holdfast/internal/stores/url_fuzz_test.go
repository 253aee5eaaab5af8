package stores

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// A URL opens a store, or is an error that says so without the password, whatever characters are raw
// in it and whatever is behind it. Only a comma with the scheme of a store behind it ends a URL.
func FuzzURL(f *testing.F) {
	var schemes []string
	for _, d := range append(store.Elsewhere(), store.Redis()) {
		schemes = append(schemes, d.Schemes...)
		scheme, _, _ := strings.Cut(d.Form, "://")
		for _, around := range []string{"", "#", "/", "%", ",", "@", "x,y://", "[", "?a=", ":"} {
			f.Add(scheme, "app:"+around, around, "@host:7000/1")
		}
		f.Add(scheme, "app:", "", "@a:1,b:2/main?tls=true")
		f.Add(scheme, "0:/", ",://", "@")
		f.Add(scheme, "", "", "")
	}
	o := store.Opener{Drivers: Drivers()}
	f.Fuzz(func(t *testing.T, scheme, before, after, rest string) {
		const secret = "s3cret"
		isPassword := strings.Contains(before, ":") && strings.HasPrefix(rest, "@") && !strings.ContainsAny(scheme, ":/") &&
			!slices.ContainsFunc(schemes, func(s string) bool {
				return strings.Contains(strings.Join(strings.Fields(before+secret+after), ""), ","+s+"://")
			})
		text := scheme + "://" + before + secret + after + rest
		st, err := o.Open(text)
		shown := ""
		if err == nil {
			shown = st.String()
			if err := st.Close(); err != nil {
				t.Errorf("Open(%q).Close: %v", text, err)
			}
		} else if _, ok := errors.AsType[*store.Error](err); !ok {
			t.Errorf("Open(%q): %T %v, want a *store.Error", text, err, err)
		} else {
			shown = err.Error()
		}
		if isPassword && strings.Contains(shown, secret) {
			t.Errorf("Open(%q) shows the password: %s", text, shown)
		}
	})
}
