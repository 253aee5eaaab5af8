// Package web is Holdfast's dashboard: an http.Handler that shows who holds what,
// since when and why, who waits, and which waits grow.
//
//	http.Handle("/admin/locks/", http.StripPrefix("/admin/locks", web.Handler(client)))
//
// The pages are made on the server and work without a script; with one they
// follow the store. The JSON of the same is under api/v1; docs/DASHBOARD.md
// describes both. All links are relative, so any prefix will do if it ends in a
// slash.
//
// # Cost
//
// The handler reads the store only while a request is under way, in the
// goroutine of one: one reading at a time, for all pages together, at most
// once a second and at most a fifth of the time. Ten open pages cost the store
// what one costs.
//
// # Safety
//
// The handler does not authenticate anybody: mount it behind what protects the
// rest of an admin server. It is read-only unless [WithBreak] is given, whatever
// a page or a program sends. Names, reasons and hosts are texts of other
// processes and are never markup; a strict Content-Security-Policy forbids
// inline scripts and styles.
package web
