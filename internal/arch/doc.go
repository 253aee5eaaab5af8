// Package arch keeps the shape of the project by tests: which package may
// import which, and the habits that every file keeps. Each rule carries its
// reason, which a failing test prints, and a planted violation in
// testdata/planted that shows that the rule can fail.
//
// The package has no code of its own outside its tests.
package arch
