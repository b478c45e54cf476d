# Grades a class: the course's exercises, the grader, and its sandbox. In the course's folder, after `make release`:
#
#   docker build --file containers/grade.Dockerfile --tag attention-grade .
#   docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD/class:/class" \
#       --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined \
#       attention-grade grade --submitted /class/submitted --into /class
#
# Without a command it says what it has and lacks. For torch's CPU build, add to the first
# --build-arg PIP_EXTRA_INDEX_URL= with the address that pytorch.org shows for Pip and CPU.
FROM python:3.11-slim-bookworm
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bubblewrap libseccomp2 \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /course
COPY LICENSE README.md nbgrader_config.py pyproject.toml requirements.txt ./
COPY autograder autograder
ARG PIP_EXTRA_INDEX_URL
RUN pip install --no-cache-dir --constraint requirements.txt ".[grade,triton]"
COPY exercises exercises
RUN useradd --create-home grader
USER grader
ENV HOME=/tmp
ENTRYPOINT ["python", "-m", "autograder"]
CMD ["doctor"]
