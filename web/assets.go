package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"strings"
)

//go:embed static
var staticFiles embed.FS

// assets are the style sheet and the script by name.
type assets map[string]asset

type asset struct {
	text      []byte
	kind, sum string
}

func newAssets() assets {
	out := assets{}
	for name, kind := range map[string]string{"style.css": "text/css; charset=utf-8", "script.js": "text/javascript; charset=utf-8"} {
		text, err := staticFiles.ReadFile("static/" + name)
		if err != nil {
			panic(err) // it is embedded
		}
		sum := sha256.Sum256(text)
		out[name] = asset{text, kind, hex.EncodeToString(sum[:6])}
	}
	return out
}

// address returns the address of an asset, which changes with its text.
func (a assets) address(name string) string { return "static/" + name + "?v=" + a[name].sum }

func (a assets) serve(w http.ResponseWriter, r *http.Request, name string) {
	found, ok := a[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", found.kind)
	h.Set("ETag", `"`+found.sum+`"`)
	if r.URL.Query().Get("v") == found.sum {
		h.Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	if strings.Contains(r.Header.Get("If-None-Match"), found.sum) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(found.text) // nobody reads the answer any more
}
