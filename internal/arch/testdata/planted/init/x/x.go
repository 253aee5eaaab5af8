package x

func init() {} // want

func (t) init() {}

type t struct{}
