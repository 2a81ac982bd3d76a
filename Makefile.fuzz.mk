# An hour of fuzzing on two cores: decoders and wire header on one, CompLL's compiler on the other. What is found to be
# new stays in build/fuzz/corpus, from which the next run starts; an input that fails goes to build/fuzz/crashes.
FUZZ_SECONDS ?= 3600
FUZZ := build/fuzz

.PHONY: fuzz
fuzz: install
	$(BIN)/python -m tests.fuzz.build
	mkdir -p $(FUZZ)/corpus/parser $(FUZZ)/crashes/parser
	@seed=$$(date +%s); status=0; \
	cpp() { $(FUZZ)/tree/fuzz_$$1 --seconds=$$2 --seed=$$seed --seeds=tests/fuzz/seeds/$$1 \
	  --corpus=$(FUZZ)/corpus/$$1 --crashes=$(FUZZ)/crashes/$$1 > $(FUZZ)/$$1.log 2>&1; }; \
	(one=0; cpp decoders $$(($(FUZZ_SECONDS) * 3 / 4)) || one=1; cpp wire $$(($(FUZZ_SECONDS) / 4)) || one=1; \
	  exit $$one) & other=$$!; \
	$(BIN)/python -m tests.fuzz.fuzz_parser -max_total_time=$(FUZZ_SECONDS) -seed=$$((seed % 4294967295)) \
	  -artifact_prefix=$(FUZZ)/crashes/parser/ -verbosity=0 -print_final_stats=1 $(FUZZ)/corpus/parser \
	  compll/algorithms examples/compll tests/compll/wrong > $(FUZZ)/parser.log 2>&1 || status=1; \
	wait $$other || status=1; \
	for log in decoders wire parser; do echo "$$log (seed $$seed):"; tail -n 12 $(FUZZ)/$$log.log; done; exit $$status
