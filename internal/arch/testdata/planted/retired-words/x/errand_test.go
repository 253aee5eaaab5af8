package x // want

func insist() {} // want
