package real

func fakeSimulator() int { return 0 }
