package web

import (
	"net/url"
	"strconv"
)

// Rows on a page.
const (
	usualPage   = 100
	longestPage = 1000
)

// listQuery is what a list shows: the parameters of its address.
type listQuery struct {
	Text, Kind, State, Sort string
	Name, Event             string // of the history
	Page, Size              int    // pages are counted from 1
}

func queryOf(v url.Values) listQuery {
	q := listQuery{Text: v.Get("q"), Kind: v.Get("kind"), State: v.Get("state"), Sort: v.Get("sort"), Name: v.Get("name"), Event: v.Get("event"), Page: 1, Size: usualPage}
	if n, err := strconv.Atoi(v.Get("page")); err == nil {
		q.Page = max(1, n)
	}
	if n, err := strconv.Atoi(v.Get("size")); err == nil {
		q.Size = min(max(1, n), longestPage)
	}
	return q
}

// values are the parameters, without those that have their default.
func (q listQuery) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"q": q.Text, "kind": q.Kind, "state": q.State, "sort": q.Sort, "name": q.Name, "event": q.Event} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Page > 1 {
		v.Set("page", strconv.Itoa(q.Page))
	}
	if q.Size != usualPage {
		v.Set("size", strconv.Itoa(q.Size))
	}
	return v
}

// Address returns the address of the same list with other parameters: names and values in turn.
// Without "page" among them it is the first page.
func (q listQuery) Address(changes ...string) string {
	v := q.values()
	v.Del("page")
	for i := 0; i+1 < len(changes); i += 2 {
		v.Set(changes[i], changes[i+1])
		if changes[i+1] == "" || changes[i] == "page" && changes[i+1] == "1" {
			v.Del(changes[i])
		}
	}
	return "?" + v.Encode()
}

// paging is a part of a list.
type paging struct {
	listQuery
	Matched, Pages int
}

// cut returns one page of a list.
func cut[T any](all []T, q listQuery) ([]T, paging) {
	p := paging{listQuery: q, Matched: len(all), Pages: max(1, (len(all)+q.Size-1)/q.Size)}
	p.Page = min(p.Page, p.Pages)
	from := (p.Page - 1) * q.Size
	return all[min(from, len(all)):min(from+q.Size, len(all))], p
}

// Previous and Next are the addresses of the pages beside this one, or "".
func (p paging) Previous() string { return p.beside(p.Page - 1) }

// Next is the address of the page after this one, or "".
func (p paging) Next() string { return p.beside(p.Page + 1) }

func (p paging) beside(n int) string {
	if n < 1 || n > p.Pages {
		return ""
	}
	return p.Address("page", strconv.Itoa(n))
}
