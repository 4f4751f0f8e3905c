"""What happens in a launch, told to the state and to the rules: accesses, copies, barriers."""
